"""PNG, NPY and the way from linear values to what a screen shows: bytes that are the same everywhere."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.conftest import run_python
from tracer.images import auto_exposure, display_pixels, replace_file, to_srgb8, write_npy, write_png

# --- sRGB and exposure ----------------------------------------------------------------------------


def srgb(x: float) -> float:
    """IEC 61966-2-1, in double precision: what the table must agree with."""
    return 12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055


@given(st.floats(0.0, 1.0, width=32))
def test_a_byte_is_the_nearest_to_the_curve(x: float) -> None:
    byte = int(to_srgb8(np.array([x], np.float32))[0])
    assert abs(byte - 255 * srgb(x)) <= 0.5 + 1e-4


def test_every_byte_comes_back() -> None:
    encoded = np.arange(256) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    assert np.array_equal(to_srgb8(linear.astype(np.float32)), np.arange(256))


def test_what_is_outside_the_curve() -> None:
    values = np.array([-np.inf, -1, -0.0, np.nan, 1, 1.5, 1e30, np.inf], np.float32)
    assert to_srgb8(values).tolist() == [0, 0, 0, 0, 255, 255, 255, 255]
    assert to_srgb8(values, 100.0).tolist() == [0, 0, 0, 0, 255, 255, 255, 255]


@given(st.floats(-30.0, 30.0, width=32))
def test_exposure_is_a_factor_of_two_a_stop(stops: float) -> None:
    values = np.geomspace(1e-6, 1e3, 500).astype(np.float32)
    expected = to_srgb8((values * np.float32(2.0**stops)).astype(np.float32))
    assert np.abs(to_srgb8(values, stops).astype(int) - expected).max() <= 1
    assert np.array_equal(to_srgb8(values, 3.0), to_srgb8(values * np.float32(8)))


@pytest.mark.parametrize("stops", [math.nan, math.inf, 101.0, -101.0])
def test_an_exposure_that_is_none_is_refused(stops: float) -> None:
    with pytest.raises(ValueError, match="stops"):
        to_srgb8(np.zeros(1, np.float32), stops)


def test_large_and_sliced_arrays_are_the_same_pixels() -> None:
    values = np.random.default_rng(1).random((1100, 1000, 4), dtype=np.float32)
    whole = to_srgb8(values[..., :3])
    assert whole.shape == (1100, 1000, 3)
    for row in (0, 349, 350, 1099):
        assert np.array_equal(whole[row], to_srgb8(values[row, :, :3]))


def test_alpha_is_straight_in_a_png_and_the_picture_over_black_without() -> None:
    rgb = np.array([[[0.25, 0.5, 0.0], [0.0, 0.0, 0.0], [0.3, 0.3, 0.3]]], np.float32)
    alpha = np.array([[0.5, 0.0, 1.0]], np.float32)
    pixels = display_pixels(rgb, alpha)
    assert pixels.dtype == np.uint8
    assert pixels[0, :, 3].tolist() == [128, 0, 255]
    assert pixels[0, 0, :3].tolist() == to_srgb8(rgb[0, 0] * np.float32(2)).tolist()
    assert pixels[0, 1].tolist() == [0, 0, 0, 0]
    assert np.array_equal(pixels[0, 2, :3], to_srgb8(rgb[0, 2]))
    assert np.array_equal(display_pixels(rgb, stops=1.0), to_srgb8(rgb, 1.0))


@given(st.integers(-8, 8))
def test_automatic_exposure_makes_the_median_middle_grey(stops: int) -> None:
    rgb = np.full((5, 5, 3), 0.18, np.float32)
    rgb[0] = 100.0
    rgb[1] = 0.01
    rgb[2, 0] = 0.0
    rgb[2, 1] = np.nan
    assert auto_exposure(rgb * np.float32(2.0**stops)) == -stops


def test_a_black_picture_stays_as_it_is() -> None:
    assert auto_exposure(np.zeros((3, 3, 3), np.float32)) == 0.0
    assert auto_exposure(np.full((3, 3, 3), 1e-44, np.float32)) == 100.0


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [3, 4])
def test_a_png_is_read_by_others(tmp_path: Path, channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (13, 29, channels), np.uint8)
    write_png(tmp_path / "a.png", pixels)
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"
        assert np.array_equal(np.asarray(image), pixels)
        assert image.info["srgb"] == 0


def test_a_full_disk_leaves_the_old_file(small_disk: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (800, 800, 3), np.uint8)
    png, npy = small_disk / "a.png", small_disk / "a.npy"
    for path in (png, npy):
        path.write_bytes(b"the old one")
    with pytest.raises(OSError, match="No space left"):
        write_png(png, noise)
    with pytest.raises(OSError, match=r"No space left|requested and"):
        write_npy(npy, noise.astype(np.float32))
    assert sorted(os.listdir(small_disk)) == ["a.npy", "a.png"]
    assert png.read_bytes() == npy.read_bytes() == b"the old one"


def test_a_png_holds_no_matches_but_runs(tmp_path: Path) -> None:
    """How longer matches are found depends on the processor, so a repeated pattern must not shrink."""
    pattern = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    write_png(tmp_path / "pattern.png", np.tile(pattern, (1, 10, 1)))
    assert (tmp_path / "pattern.png").stat().st_size > 0.9 * 10 * pattern.nbytes
    write_png(tmp_path / "runs.png", np.full((40, 500, 3), 7, np.uint8))
    assert (tmp_path / "runs.png").stat().st_size < 0.05 * 10 * pattern.nbytes


def test_npy_holds_the_values(tmp_path: Path) -> None:
    rgb = np.random.default_rng(0).random((4, 6, 3), dtype=np.float32)
    write_npy(tmp_path / "a.npy", rgb[:, ::2])
    loaded = np.load(tmp_path / "a.npy", allow_pickle=False)
    assert loaded.dtype == np.dtype("<f4")
    assert np.array_equal(loaded, rgb[:, ::2])


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250 + ".png")  # no room for a suffix
    with replace_file(target) as temporary:
        temporary.write_bytes(b"one")
        assert not target.exists()
    with pytest.raises(KeyError), replace_file(target) as temporary:
        temporary.write_bytes(b"two")
        raise KeyError
    assert target.read_bytes() == b"one"
    assert os.listdir(tmp_path) == [target.name]
    with pytest.raises(FileNotFoundError), replace_file(tmp_path / "no" / "folder.png"):
        pass


def test_another_processor_gives_the_same_bytes(tmp_path: Path) -> None:
    """NumPy without its vector code stands for another processor."""
    code = """
        import hashlib
        y, x = np.mgrid[0:90, 0:130].astype(np.float32)
        rgb = np.stack([x / 130, y / 90, ((x * 7919 + y * 104729) % 31) / 33], axis=-1).astype(np.float32)
        with ExrWriter(Path("a.exr"), 130, 90, {}) as exr:
            exr.write_rows({name: rgb[..., i] for i, name in enumerate("RGB")})
        write_png(Path("a.png"), display_pixels(rgb, rgb[..., 1], 0.37))
        write_npy(Path("a.npy"), rgb)
        print(auto_exposure(rgb * rgb), auto_exposure(rgb))
        for name in ("a.exr", "a.png", "a.npy"):
            print(hashlib.sha256(Path(name).read_bytes()).hexdigest())
        """
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    slow = " ".join(found)
    assert run_python(code, tmp_path) == run_python(code, tmp_path, {"NPY_DISABLE_CPU_FEATURES": slow})


def test_the_bytes_of_a_known_picture(tmp_path: Path) -> None:
    """A change here is a change of every published preview: raise picture_version with it."""
    values = np.linspace(0, 1, 4096, dtype=np.float32)
    expected = "2adc77b4164c2b980f94e3547e84e6edd0700f9c16ca5ea015c17491b27b02b3"
    assert hashlib.sha256(to_srgb8(values, 0.5).tobytes()).hexdigest() == expected
