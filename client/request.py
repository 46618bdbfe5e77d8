"""From what a person asks for to a FrameRequest, and the bundle of files that belongs to it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from client.errors import BadInput
from contracts import BundleFile, FrameRequest, RenderSettings, SceneBundle, SceneRef
from tracer.bundle import list_bundle
from tracer.engine import PICTURE_VERSION
from tracer.errors import TracerError

ENVIRONMENT_FOLDER = "tessera-environment"
"""Where an environment picture lies in the bundle: it need not lie beside the scene."""


@dataclass(frozen=True)
class LocalBundle:
    """A bundle and where its files are on this machine, by their path in the bundle."""

    bundle: SceneBundle
    paths: dict[str, Path]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """What one `render` or `submit` asks for, beside the scene's path."""

    project: str = "default"
    camera: str | None = None
    samples_per_pixel: int = 64
    settings: dict[str, Any] | None = None
    """Fields of RenderSettings; environment.path is a path on this machine."""
    priority: int = 50
    tile_size: int | None = None
    root: Path | None = None


def make_requests(scene: Path, frames: list[int], options: Options) -> tuple[list[FrameRequest], LocalBundle]:
    """One request a frame, all of the same bundle. Raises BadInput with one clear line."""
    settings = dict(options.settings or {})
    environment = dict(settings.get("environment") or {})
    picture = Path(environment["path"]) if environment.get("path") else None
    if picture is not None:
        settings["environment"] = environment | {"path": f"{ENVIRONMENT_FOLDER}/{picture.name}"}
    local = _bundle(scene, options.root, picture)
    try:
        requests = [
            FrameRequest(
                project_id=options.project,
                scene=SceneRef(version=local.bundle.version, entry=local.bundle.entry),
                camera=options.camera,
                frame_number=frame,
                samples_per_pixel=options.samples_per_pixel,
                settings=RenderSettings.model_validate(settings),
                picture_version=PICTURE_VERSION,
                priority=options.priority,
                tile_size=options.tile_size,
            )
            for frame in frames
        ]
    except ValidationError as error:
        raise BadInput(plain(error)) from error
    return requests, local


def _bundle(scene: Path, root: Path | None, picture: Path | None) -> LocalBundle:
    try:
        listed = list_bundle(scene, root)
    except TracerError as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(f"{scene}: {error.strerror or error}") from error
    paths = dict(listed.files)
    if picture is not None:
        paths[f"{ENVIRONMENT_FOLDER}/{picture.name}"] = picture
    files = tuple(_describe(name, path) for name, path in sorted(paths.items()))
    return LocalBundle(SceneBundle(entry=listed.entry, files=files), paths, tuple(listed.warnings))


def _describe(name: str, path: Path) -> BundleFile:
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return BundleFile(path=name, sha256=digest, size=file.tell())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def plain(error: ValidationError) -> str:
    """The first fault as a field path and a sentence."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
