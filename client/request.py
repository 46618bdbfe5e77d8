"""From what a person asks for to a FrameRequest, and the bundle of files that belongs to it."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client.errors import BadField, BadInput, client_errors
from contracts import BundleFile, ErrorCode, FrameRequest, RenderSettings, SceneBundle, SceneRef
from tracer.bundle import list_bundle
from tracer.engine import PICTURE_VERSION
from tracer.errors import AssetMissing, SceneInvalid, SceneUnsupported, TracerError

ENVIRONMENT_FOLDER = "tessera-environment"
"""Where an environment picture lies in the bundle: it need not lie beside the scene."""
ENVIRONMENT_FORMATS = (".hdr", ".exr", ".npy")


@dataclass(frozen=True)
class LocalBundle:
    """A bundle and where its files are on this machine, by their path in the bundle."""

    bundle: SceneBundle
    paths: Mapping[str, Path]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """What one `render` or `submit` asks for, beside the scene's path."""

    project: str = "default"
    camera: str | None = None
    samples_per_pixel: int = 64
    priority: int = 50
    weight: float = 1.0
    tile_size: int | None = None
    park_limit_seconds: int | None = None
    root: str | Path | None = None
    """Where the scene may refer to; None for its folder."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of RenderSettings; environment.path is a path on this machine."""


def make_requests(
    scene: str | Path, frames: Sequence[int], options: Options
) -> tuple[list[FrameRequest], LocalBundle]:
    """One request a frame, all of the same bundle. Raises BadInput with one clear line."""
    settings = dict(options.settings)
    environment = dict(settings.get("environment") or {})
    picture = Path(environment["path"]) if environment.get("path") else None
    if picture is not None:
        if picture.suffix.lower() not in ENVIRONMENT_FORMATS:
            raise BadField(
                "environment",
                f"{picture}: neither three numbers R,G,B nor a picture of a kind that is read "
                f"({' '.join(ENVIRONMENT_FORMATS)})",
            )
        settings["environment"] = environment | {"path": f"{ENVIRONMENT_FOLDER}/{picture.name}"}
    with client_errors():  # before the bundle: a misspelt option needs no hashing of gigabytes
        checked = RenderSettings.model_validate(settings)
    local = _bundle(Path(scene), Path(options.root) if options.root else None, picture)
    with client_errors():
        requests = [
            FrameRequest(
                project_id=options.project,
                scene=SceneRef(version=local.bundle.version, entry=local.bundle.entry),
                camera=options.camera,
                frame_number=frame,
                samples_per_pixel=options.samples_per_pixel,
                settings=checked,
                picture_version=PICTURE_VERSION,
                priority=options.priority,
                weight=options.weight,
                tile_size=options.tile_size,
                park_limit_seconds=options.park_limit_seconds,
            )
            for frame in frames
        ]
    return requests, local


def _bundle(scene: Path, root: Path | None, picture: Path | None) -> LocalBundle:
    try:
        listed = list_bundle(scene, root)
    except TracerError as error:
        raise BadInput(str(error), _code_of(error)) from error
    except OSError as error:
        raise BadInput(f"{scene}: {error.strerror or error}", ErrorCode.ASSET_MISSING) from error
    paths = dict(listed.files)
    if picture is not None:
        paths[f"{ENVIRONMENT_FOLDER}/{picture.name}"] = picture
    files = tuple(_describe(name, path) for name, path in sorted(paths.items()))
    return LocalBundle(SceneBundle(entry=listed.entry, files=files), paths, tuple(listed.warnings))


def _code_of(error: TracerError) -> ErrorCode | None:
    codes = {
        SceneInvalid: ErrorCode.SCENE_INVALID,
        SceneUnsupported: ErrorCode.SCENE_UNSUPPORTED,
        AssetMissing: ErrorCode.ASSET_MISSING,
    }
    return next((code for kind, code in codes.items() if isinstance(error, kind)), None)


def _describe(name: str, path: Path) -> BundleFile:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be read for ever
            raise BadInput(f"{path}: not a regular file", ErrorCode.ASSET_MISSING)
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return BundleFile(path=name, sha256=digest, size=file.tell())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}", ErrorCode.ASSET_MISSING) from error
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{name!r}: the file's name is not UTF-8; rename it", ErrorCode.ASSET_MISSING
        ) from error
