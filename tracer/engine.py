"""Which engine this is, and how its kernels are compiled. Imports neither numba nor numpy.

Two films may be merged or continued only when one engine made both: the same tracer sources, compiled by
the same compiler for the same processor target. `fingerprint` names that engine.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

PICTURE_VERSION = 4
"""Raised whenever pixels are meant to change. Part of every frame's identity."""

LIBRARIES = ("numba", "llvmlite", "numpy", "pillow", "OpenEXR")
"""What can change a byte between a scene's files and its film or picture."""

X86_TARGETS = ("x86_64", "amd64")


def cpu_target() -> str:
    """The processor that kernels are compiled for: never the machine's own unless someone asks for it."""
    default = "x86-64-v3" if platform.machine().lower() in X86_TARGETS else "generic"
    return os.environ.get("NUMBA_CPU_NAME") or default


@cache
def sources_hash() -> str:
    """sha256 over every Python file of the tracer, by relative path and content."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def describe() -> dict[str, str]:
    """What the fingerprint is made of, for people and for logs."""
    return {
        "picture_version": str(PICTURE_VERSION),
        "sources": sources_hash()[:16],
        "cpu": cpu_target(),
        **{name.lower(): metadata.version(name) for name in LIBRARIES},
    }


def fingerprint() -> str:
    """16 hex digits that name the engine; part of every sample_key and of every task queue's name."""
    return hashlib.sha256(json.dumps(describe(), sort_keys=True).encode()).hexdigest()[:16]


def configure(cache_dir: Path | None = None) -> None:
    """Sets Numba's environment. Must run before numba is imported; tracer.kernels sees to that.

    cache_dir: where compiled kernels are kept on this machine; $TESSERA_CACHE or the user's cache
    directory where not given. Raises RuntimeError where numba was imported with another target.
    """
    target = cpu_target()
    numba = sys.modules.get("numba")
    if numba is not None and (target, "") != (numba.config.CPU_NAME, numba.config.CPU_FEATURES):
        raise RuntimeError("numba was imported before tracer.engine.configure(): its target is not pinned")
    if cache_dir is not None:
        os.environ["TESSERA_CACHE"] = str(cache_dir)  # child processes use the same
    os.environ["NUMBA_CPU_NAME"] = target
    # Empty, not unset: unset adds the features of this machine to the named target.
    os.environ["NUMBA_CPU_FEATURES"] = ""
    # Numba looks only at the file of the kernel itself, not at the helpers that it calls: without the hash
    # of all sources an edited helper would go on running in its old form.
    os.environ["NUMBA_CACHE_DIR"] = str(_writable(_cache_root() / f"{sources_hash()[:16]}-{target}"))


def _writable(cache: Path) -> Path:
    """The folder, or a copy of it in the temporary folder where it cannot be written, as in a container with
    a read-only file system: Numba refuses to read a cache that it could not write."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache).close()
        return cache
    except OSError:
        copy = Path(tempfile.gettempdir()) / "tessera-kernels" / cache.name
        if cache.is_dir() and not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            own = Path(tempfile.mkdtemp(dir=copy.parent))
            shutil.copytree(cache, own, dirs_exist_ok=True)
            with suppress(OSError):  # another process was first
                own.rename(copy)
        return copy


def _cache_root() -> Path:
    given = os.environ.get("TESSERA_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tessera" / "kernels"
