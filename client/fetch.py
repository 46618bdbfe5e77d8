"""Fetching a published picture: verified against its manifest, written beside the target, then renamed."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from client.errors import BadInput, Unreachable
from contracts import ErrorCode, ImageRecord, Manifest
from store import NotFound, Store

FORMATS = (".exr", ".png", ".npy")
PREVIEW = "preview.png"


def check_outputs(paths: Iterable[Path]) -> None:
    """Raises BadInput where a picture could not be written, before anything is rendered."""
    seen: set[Path] = set()
    for path in paths:
        if path.suffix.lower() not in FORMATS:
            raise BadInput(f"{path}: the output's format is its extension, one of {' '.join(FORMATS)}")
        try:
            if not path.parent.is_dir():
                raise BadInput(f"{path}: the folder {path.parent} is not there")
            if path.is_dir():
                raise BadInput(f"{path}: is a folder")
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if path in seen:
            raise BadInput(f"{path}: named twice")
        seen.add(path)


def fetch(store: Store, manifest: Manifest, outputs: Iterable[Path], exposure: float | None = 0.0) -> None:
    """Writes the frame's picture to each output, by its extension. exposure: stops for PNG; None: auto.

    Raises BadInput where an output cannot be written, Unreachable where the published picture is gone or
    damaged. A target that exists is replaced by the whole new picture, or stays.
    """
    from tracer.images import replace_file

    with tempfile.TemporaryDirectory(prefix="tessera-fetch-") as folder:
        local = Path(folder) / "frame.exr"
        with open(local, "wb") as file:
            _download(store, manifest.frame.images[0], file)
        for output in outputs:
            try:
                if output.suffix.lower() == ".exr":
                    with replace_file(output) as temporary:
                        shutil.copyfile(local, temporary)
                else:
                    _convert(local, output, exposure, manifest.frame.request.settings.hide_environment)
            except OSError as error:
                raise BadInput(f"{output}: {error.strerror or error}") from error


def fetch_preview(store: Store, manifest: Manifest, output: Path) -> None:
    """Writes the published preview, a PNG, as it is in the store. Errors: see fetch."""
    from tracer.images import replace_file

    preview = next((image for image in manifest.frame.images if image.name == PREVIEW), None)
    if preview is None:
        fetch(store, manifest, [output])
        return
    try:
        with replace_file(output) as temporary, open(temporary, "wb") as file:
            _download(store, preview, file)
    except OSError as error:
        raise BadInput(f"{output}: {error.strerror or error}") from error


def _download(store: Store, image: ImageRecord, target: BinaryIO) -> None:
    digest = hashlib.sha256()
    try:
        with store.open(image.key) as source:
            while piece := source.read(1 << 20):
                digest.update(piece)
                target.write(piece)
    except NotFound as error:
        raise Unreachable(
            f"{image.key}: named by the manifest, but gone from the store", ErrorCode.STORAGE_UNAVAILABLE
        ) from error
    if digest.hexdigest() != image.sha256:
        raise Unreachable(
            f"{image.key}: damaged in the store, its hash is not the manifest's",
            ErrorCode.STORAGE_UNAVAILABLE,
        )


def _convert(exr: Path, output: Path, exposure: float | None, transparent: bool) -> None:
    import numpy as np

    from tracer.images import auto_exposure, display_pixels, read_exr, write_npy, write_png

    channels, _ = read_exr(exr, ["R", "G", "B", "A"])
    rgb = np.stack([channels[name] for name in "RGB"], axis=-1)
    if output.suffix.lower() == ".npy":
        write_npy(output, rgb)
        return
    stops = auto_exposure(rgb) if exposure is None else exposure
    write_png(output, display_pixels(rgb, channels["A"] if transparent else None, stops))
