"""What the tracer can refuse. Each class is one code of the closed set; activities/errors.py maps them.

A message names the file or the element, says what is wrong with it and, where there is one, the remedy.
"""


class TracerError(Exception):
    """Base of the tracer's own errors."""


class SceneInvalid(TracerError):
    """The scene's files contradict themselves or their format."""


class SceneUnsupported(TracerError):
    """The scene needs something that this renderer does not offer, or exceeds a stated limit."""


class AssetMissing(TracerError):
    """A file that the scene refers to is not there, or lies where the scene may not point."""


class FileAbsent(AssetMissing):
    """The scene's files hold none of that name. A loader may do without some, never without a damaged one."""


class SettingsInvalid(TracerError):
    """The settings do not fit the scene, for example a camera that it does not have."""


class FilmInvalid(TracerError, ValueError):
    """A stored film is damaged, cut off, or belongs to something else.

    Also a ValueError: that is how the store, which may not import this, tells damage from other errors.
    """
