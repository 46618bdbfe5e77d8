"""Environment pictures: .hdr, .exr and .npy."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.loaders.files import SHARED, Memory
from tracer.bundle import FolderFiles
from tracer.errors import AssetMissing, SceneInvalid, SceneUnsupported
from tracer.images import ExrWriter
from tracer.limits import Limits
from tracer.loaders import load_environment

Array = NDArray[np.float32]
SKY = np.arange(2 * 3 * 3, dtype=np.float32).reshape(2, 3, 3)


def load(name: str, data: bytes, limits: Limits = Limits()) -> Array:  # noqa: B008  a tuple
    return load_environment(name, Memory({name: data}), limits)


def npy(array: NDArray[np.generic]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def hdr(width: int, height: int, body: bytes, more: str = "FORMAT=32-bit_rle_rgbe\n") -> bytes:
    return f"#?RADIANCE\n# made here\n{more}\n-Y {height} +X {width}\n".encode() + body


def test_npy_of_every_order_and_width() -> None:
    for array in (SKY, np.asfortranarray(SKY), SKY.astype(">f4"), SKY.astype(np.float64), SKY.astype("f2")):
        found = load("e.npy", npy(array))
        assert found.tolist() == SKY.tolist()
        assert found.dtype == np.float32 and found.flags.c_contiguous


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 3)), np.zeros((2, 3, 4)), np.zeros((0, 3, 3)), np.zeros((2, 3, 3), int), np.array([{}, 1])],
)
def test_npy_of_another_shape_or_kind_is_refused(array: NDArray[np.generic]) -> None:
    with pytest.raises(SceneInvalid, match=r"^e\.npy: "):
        load("e.npy", npy(array))


def test_npy_that_announces_more_than_is_there_is_refused_before_allocating() -> None:
    data = npy(SKY)
    for end in range(len(data)):
        with pytest.raises(SceneInvalid, match=r"^e\.npy: "):
            load("e.npy", data[:end])
    wide = data.replace(b"(2, 3, 3)", b"(20000, 3000, 3)")
    with pytest.raises(SceneInvalid, match=r"720000000 bytes are announced|not a NumPy array"):
        load("e.npy", wide)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_by_its_place(value: float) -> None:
    sky = SKY.copy()
    sky[1, 2, 0] = value
    with pytest.raises(SceneInvalid, match=r"^e\.npy: row 1, column 2: not finite"):
        load("e.npy", npy(sky))
    with pytest.raises(SceneInvalid, match="row 0, column 0: not finite"):
        load("e.npy", npy(np.full((1, 1, 3), 1e300)))


def test_what_is_below_zero_is_no_light() -> None:
    assert load("e.npy", npy(SKY - 1)).min() == 0.0


def exr(tmp_path: Path, **channels: Array) -> bytes:
    with ExrWriter(tmp_path / "e.exr", 3, 2, {}) as writer:
        writer.write_rows(channels)
    return (tmp_path / "e.exr").read_bytes()


def test_exr(tmp_path: Path) -> None:
    data = exr(tmp_path, R=SKY[..., 0], G=SKY[..., 1], B=SKY[..., 2], A=SKY[..., 0])
    assert load("e.exr", data).tolist() == SKY.tolist()
    grey = load("e.exr", exr(tmp_path, Y=SKY[..., 0]))
    assert grey.tolist() == np.repeat(SKY[..., :1], 3, axis=2).tolist()
    with pytest.raises(SceneInvalid, match=r"^e\.exr: has channels Z, but no R"):
        load("e.exr", exr(tmp_path, Z=SKY[..., 0]))
    with pytest.raises(SceneUnsupported, match="3x2 pixels; at most 5"):
        load("e.exr", data, Limits(texture_pixels=5))
    for end in range(0, len(data), 9):
        with pytest.raises(SceneInvalid, match=r"^e\.exr: ") as caught:
            load("e.exr", data[:end])
        assert "/environment.exr" not in str(caught.value)


def run_length(row: NDArray[np.uint8]) -> bytes:
    """A row (w, 4) as runs where at least three are equal, as plain pieces elsewhere."""
    coded = bytearray([2, 2, len(row) >> 8, len(row) & 255])
    for channel in row.T:
        values, at = channel.tolist(), 0
        while at < len(values):
            run = 1
            while at + run < len(values) and run < 127 and values[at + run] == values[at]:
                run += 1
            if run > 2:
                coded += bytes([128 + run, values[at]])
                at += run
            else:
                piece = values[at : at + 5]
                coded += bytes([len(piece), *piece])
                at += len(piece)
    return bytes(coded)


@given(st.integers(8, 300), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_hdr_in_runs_and_plain_say_the_same(width: int, height: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rgbe = random.integers(0, 4, (height, width, 4)).astype(np.uint8)
    rgbe[..., 0] += 3  # a row must not begin like one in runs
    rgbe[..., 3] += 127
    plain = load("e.hdr", hdr(width, height, rgbe.tobytes()))
    assert np.array_equal(plain, load("e.hdr", hdr(width, height, b"".join(map(run_length, rgbe)))))
    expected = rgbe[..., :3] * 2.0 ** (rgbe[..., 3:].astype(int) - 136)
    assert np.array_equal(plain, expected.astype(np.float32))


def test_hdr_in_old_runs() -> None:
    one, two = bytes([128, 64, 32, 129]), bytes([0, 0, 0, 0])
    body = one + bytes([1, 1, 1, 2]) + two + bytes([1, 1, 1, 3]) + bytes([1, 1, 1, 1])
    found = load("e.hdr", hdr(3 + 1 + 3 + 256, 1, body))
    assert found[0, 2].tolist() == [1.0, 0.5, 0.25]
    assert found[0, 3:].max() == 0.0


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", SceneInvalid),
        (b"RADIANCE\n\n-Y 1 +X 1\n1234", SceneInvalid),
        (hdr(1, 1, b"123"), SceneInvalid),
        (hdr(8, 1, bytes([2, 2, 0, 8, 129])), SceneInvalid),
        (hdr(8, 1, bytes([2, 2, 0, 8, 0])), SceneInvalid),
        (hdr(8, 1, bytes([2, 2, 0, 8]) + bytes([128 + 9, 1]) * 4), SceneInvalid),
        (hdr(8, 1, bytes([1, 1, 1, 8])), SceneInvalid),
        (hdr(8, 1, bytes([5, 5, 5, 5]) + bytes([1, 1, 1, 255]) * 9), SceneInvalid),
        (hdr(0, 1, b""), SceneInvalid),
        (hdr(99_999, 99_999, b""), SceneUnsupported),
        (hdr(1, 1, b"1234", "FORMAT=32-bit_rle_xyze\n"), SceneUnsupported),
        (hdr(1, 1, b"1234").replace(b"-Y", b"+Y"), SceneUnsupported),
    ],
)
def test_hdr_that_does_not_fit_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^e\.hdr: "):
        load("e.hdr", data)


def test_other_files_are_refused() -> None:
    with pytest.raises(SceneUnsupported, match=r"e\.png: .*\.hdr \.exr \.npy"):
        load("e.png", b"")
    with pytest.raises(AssetMissing):
        load_environment("gone.hdr", Memory(), Limits())


@pytest.mark.skipif(not (SHARED / "env").is_dir(), reason="the environments are not in ../shared")
def test_a_real_sky() -> None:
    """The array is the same picture, made smaller: half a step of RGBE (0.2 %) is lost in the other."""
    files = FolderFiles(SHARED / "env")
    picture = load_environment("chinese_garden_256x128.hdr", files, Limits())
    small = load_environment("chinese_garden_64x32.npy", files, Limits())
    assert (picture.shape, small.shape) == ((128, 256, 3), (32, 64, 3))
    ratio = picture.reshape(32, 4, 64, 4, 3).mean(axis=(1, 3)) / small
    assert np.median(ratio) == pytest.approx(1.0, abs=0.005)
