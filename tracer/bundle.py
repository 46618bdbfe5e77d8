"""Which files belong to a scene on this machine: what submitting it uploads.

Nothing outside the root is opened, whatever a scene says: neither through `..` nor through links.
Standard library only: submitting a scene must not load a renderer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tracer.errors import AssetMissing, FileAbsent, SceneInvalid
from tracer.references import (
    USED_MAPS,
    gltf_references,
    locate,
    map_references,
    material_libraries,
    parse_json,
    read_glb,
    scene_kind,
    shorten,
)


@dataclass(frozen=True)
class Bundle:
    """A scene file and every file it refers to.

    entry: the scene file's path relative to the root, with forward slashes. files: (such a path, the
    absolute path on this machine), sorted, entry among them.
    """

    entry: str
    files: tuple[tuple[str, Path], ...]
    warnings: tuple[str, ...] = ()


class FolderFiles:
    """tracer.scene.SceneFiles of one folder. What lies outside it, also through a link, is refused."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.realpath(root))

    def read(self, path: str) -> bytes:
        """The content; AssetMissing where there is no such file or it lies outside the folder."""
        try:
            return self.find(path).read_bytes()
        except OSError as error:
            raise AssetMissing(f"{shorten(path)}: {error.strerror}") from error

    def find(self, path: str) -> Path:
        """The absolute path of a regular file; AssetMissing as `read`."""
        real = self._real(path)
        try:
            mode = os.stat(real).st_mode
        except FileNotFoundError as error:
            raise FileAbsent(f"{shorten(path)} in {self._root}: there is no such file") from error
        except OSError as error:
            raise AssetMissing(f"{shorten(path)} in {self._root}: {error.strerror}") from error
        if not stat.S_ISREG(mode):  # a pipe would be read for ever
            raise AssetMissing(f"{shorten(path)} in {self._root} is not a regular file")
        return real

    def exists(self, path: str) -> bool:
        """Whether something is there; AssetMissing where that would be outside the folder."""
        return os.path.lexists(self._real(path))

    def _real(self, path: str) -> Path:
        try:
            real = Path(os.path.realpath(self._root / path))
        except (OSError, ValueError) as error:
            raise AssetMissing(f"{shorten(path)} is not the name of a file: {error}") from error
        if not real.is_relative_to(self._root):
            raise AssetMissing(f"{shorten(path)} lies outside {self._root}; widen the root with `--root DIR`")
        return real


def list_bundle(scene: Path, root: Path | None = None) -> Bundle:
    """The scene and the files that it refers to, below root (default: the scene's folder).

    Raises AssetMissing for a reference to what is not there or not below root, SceneInvalid for a file
    whose references cannot be read, SceneUnsupported for a kind of scene that is not known.
    """
    folder = Path(os.path.realpath(scene.parent))
    files = FolderFiles(root if root is not None else folder)
    top = Path(os.path.realpath(root)) if root is not None else folder
    if not (folder / scene.name).is_relative_to(top):
        raise AssetMissing(f"{scene}: lies outside {top}; name a folder above it with `--root DIR`")
    entry = (folder / scene.name).relative_to(top).as_posix()
    kind = scene_kind(entry)
    try:
        entry.encode()
    except UnicodeEncodeError as error:
        raise SceneInvalid(f"{entry!r}: the file's name is not UTF-8; rename it") from error
    real = files.find(entry)
    collected = _Collector(files, {entry: real})
    if kind in (".gltf", ".glb"):
        _collect_gltf(collected, entry, real, kind)
    elif kind == ".obj":
        _collect_obj(collected, entry, real)
    return Bundle(entry, tuple(sorted(collected.paths.items())), tuple(collected.warnings))


class _Collector:
    def __init__(self, files: FolderFiles, paths: dict[str, Path]) -> None:
        self.files = files
        self.paths = paths
        self.warnings: list[str] = []

    def add(self, path: str, where: str) -> Path:
        if path not in self.paths:
            with _shown(where):
                self.paths[path] = self.files.find(path)
        return self.paths[path]

    def exists(self, path: str, where: str) -> bool:
        with _shown(where):
            return self.files.exists(path)


@contextmanager
def _shown(where: str) -> Iterator[None]:
    """Puts the place of a reference before what is wrong with the file that it names."""
    try:
        yield
    except AssetMissing as error:
        raise AssetMissing(f"{where}: {error}") from error


def _collect_gltf(collected: _Collector, entry: str, real: Path, kind: str) -> None:
    with open(real, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        text = read_glb(file, size, entry).json if kind == ".glb" else file.read()
    for where, path in gltf_references(parse_json(text, entry), entry):
        collected.add(path, f"{entry}: {where}")


def _collect_obj(collected: _Collector, entry: str, real: Path) -> None:
    libraries: dict[str, str] = {}
    with open(real, "rb") as file:
        for number, line in enumerate(file, 1):
            words = line.split(maxsplit=1)
            if len(words) == 2 and words[0] == b"mtllib":
                for name in material_libraries(words[1].decode("utf-8", "replace").strip()):
                    libraries.setdefault(locate(entry, name, f"line {number}"), f"{entry}: line {number}")
    for path, where in libraries.items():
        if collected.exists(path, where):
            _collect_mtl(collected, path, collected.add(path, where))
        else:
            collected.warnings.append(f"{where}: material library {shorten(path)} is missing")


def _collect_mtl(collected: _Collector, path: str, real: Path) -> None:
    for reference in map_references(real.read_bytes()):
        place = f"line {reference.line}: {reference.key}"
        picture = locate(path, reference.name, place)
        if reference.key in USED_MAPS or collected.exists(picture, f"{path}: {place}"):
            collected.add(picture, f"{path}: {place}")
