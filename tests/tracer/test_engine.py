"""The engine's name changes with everything that can change a byte, and its target is never the host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracer import engine

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_fingerprint_is_16_hex_digits_and_stable() -> None:
    assert len(bytes.fromhex(engine.fingerprint())) == 8
    assert run("from tracer import engine; print(engine.fingerprint())") == engine.fingerprint()


def test_the_fingerprint_needs_neither_numba_nor_numpy() -> None:
    code = (
        "import sys; from tracer import engine; engine.configure(); engine.fingerprint();"
        "print({'numba', 'numpy'} & set(sys.modules))"
    )
    assert run(code) == "set()"


@pytest.mark.parametrize("part", ["cpu", "numba", "llvmlite", "numpy", "pillow", "openexr", "sources"])
def test_the_fingerprint_depends_on(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = engine.fingerprint()
    described = engine.describe()
    assert part in described
    monkeypatch.setattr(engine, "describe", lambda: described | {part: "another"})
    assert engine.fingerprint() != before


def test_every_source_of_the_tracer_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    helper = tmp_path / "kernels" / "helper.py"
    helper.write_text("a = 1\n")
    monkeypatch.setattr(engine, "__file__", str(tmp_path / "engine.py"))
    hash_of = engine.sources_hash.__wrapped__
    first = hash_of()
    helper.write_text("a = 2\n")
    assert hash_of() != first
    helper.rename(tmp_path / "kernels" / "renamed.py")
    assert hash_of() != first


def test_kernels_see_the_pinned_target_and_a_cache_of_their_sources(tmp_path: Path) -> None:
    code = (
        "import tracer.kernels, numba;"
        "print(numba.config.CPU_NAME, repr(numba.config.CPU_FEATURES), numba.config.CACHE_DIR)"
    )
    name, features, cache = run(code, TESSERA_CACHE=str(tmp_path)).split()
    assert (name, features) == (engine.cpu_target(), "''")
    assert Path(cache).parent == tmp_path
    assert Path(cache).name.startswith(engine.sources_hash()[:16])
    name, _, other = run(code, TESSERA_CACHE=str(tmp_path), NUMBA_CPU_NAME="x86-64-v2").split()
    assert name == "x86-64-v2"
    assert other != cache


def test_numba_before_the_engine_is_refused() -> None:
    code = "import numba\ntry: import tracer.kernels\nexcept RuntimeError as error: print(error)"
    assert "not pinned" in run(code)


@pytest.mark.skipif(engine.cpu_target() != "x86-64-v3", reason="reads x86-64 code of the default target")
def test_no_instruction_beyond_the_target_and_none_fused() -> None:
    code = """
from tracer.kernels import njit
def f(a, b, c):
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i] + c[i]
        c[i] = a[i] * b[i] + c[i]
    return s
import numpy as np
g = njit(error_model="numpy")(f)
g(np.ones(9), np.ones(9), np.ones(9))
print("\\n".join(g.inspect_asm().values()))
"""
    text = run(code)
    assert "mulpd" in text or "mulsd" in text
    assert "fmadd" not in text  # would round once where other processors round twice
    assert "zmm" not in text  # AVX-512, which the target has not


def test_a_kernel_cache_that_cannot_be_written_is_read_from_a_copy(tmp_path: Path) -> None:
    """As in a container whose file system is read-only. Numba itself would refuse to start."""
    code = "import os; from tracer import engine; engine.configure(); print(os.environ['NUMBA_CACHE_DIR'])"
    (tmp_path / "tmp").mkdir()
    kept = Path(run(code, TESSERA_CACHE=str(tmp_path / "cache")))
    (kept / "kernel.nbc").write_bytes(b"compiled")
    assert kept.parent == tmp_path / "cache"
    environment = {"TESSERA_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    mounted = tmp_path / "cache"
    if os.geteuid() == 0:  # whom permissions do not stop
        made = subprocess.run(["mount", "-o", "bind,ro", mounted, mounted], check=False, capture_output=True)
        if made.returncode:
            pytest.skip("nothing can be mounted read-only here, and root writes everywhere")
    else:
        kept.chmod(0o555)
    try:
        copies = [Path(run(code, **environment)) for _ in range(2)]
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", mounted], check=True)
    assert copies[0] == copies[1] and copies[0].is_relative_to(tmp_path / "tmp")
    assert (copies[0] / "kernel.nbc").read_bytes() == b"compiled"
