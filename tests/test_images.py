"""Encoded pictures: standard readers agree with ours, the same pixels are the same bytes, and a file is
there whole or not at all."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import OpenEXR
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tracer.images import (
    ExrReader,
    ExrWriter,
    Float32,
    ImageInvalid,
    auto_exposure,
    display_pixels,
    read_exr,
    replace_file,
    to_srgb8,
    verify_exr,
    write_npy,
    write_png,
)

NAMES = ["A", "B", "G", "R", "Z", "albedo.B", "albedo.G", "albedo.R", "normal.X", "normal.Y", "normal.Z"]
ATTRIBUTES = {"tessera.job_id": "frame-é-0001", "tessera.samples": "64"}
WIDTH, HEIGHT = 37, 53


def picture(width: int = WIDTH, height: int = HEIGHT) -> dict[str, Float32]:
    random = np.random.default_rng(7)
    return {name: random.normal(0.0, 10.0, (height, width)).astype(np.float32) for name in NAMES}


def write(path: Path, channels: dict[str, Float32], rows: int = 16) -> bytes:
    height, width = channels["R"].shape
    with ExrWriter(path, width, height, ATTRIBUTES) as exr:
        for first in range(0, height, rows):
            exr.write_rows({name: values[first : first + rows] for name, values in channels.items()})
    return path.read_bytes()


# --- OpenEXR --------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    channels, path = picture(), tmp_path / "a b ä.exr"
    write(path, channels)
    read, attributes = read_exr(path)
    assert list(read) == NAMES
    assert all(np.array_equal(read[name], channels[name]) for name in NAMES)
    assert attributes == ATTRIBUTES | {"software": "Tessera"}
    rows = ExrReader(path).rows(17, 20, ["Z", "R"])
    assert list(rows) == ["R", "Z"]
    assert np.array_equal(rows["Z"], channels["Z"][17:37])
    verify_exr(path, WIDTH, HEIGHT)


def test_the_official_reader_agrees(tmp_path: Path) -> None:
    channels, path = picture(), tmp_path / "a.exr"
    write(path, channels)
    file = OpenEXR.File(str(path), separate_channels=True)
    assert sorted(file.channels()) == NAMES
    assert all(np.array_equal(file.channels()[name].pixels, channels[name]) for name in NAMES)
    layers = OpenEXR.File(str(path)).channels()
    assert layers["albedo"].pixels.shape == (HEIGHT, WIDTH, 3)
    assert np.array_equal(layers["RGBA"].pixels[..., 3], channels["A"])
    header = file.header()
    rec709 = (0.64, 0.33, 0.30, 0.60, 0.15, 0.06, 0.3127, 0.3290)
    assert header["chromaticities"] == pytest.approx(rec709, abs=1e-6)
    assert header["compression"] == OpenEXR.ZIP_COMPRESSION
    assert header["tessera.job_id"] == "frame-é-0001"


def test_nothing_but_the_picture_is_in_the_file(tmp_path: Path) -> None:
    """No date, host or owner: two attempts must give the same bytes."""
    write(tmp_path / "a.exr", picture())
    header = OpenEXR.File(str(tmp_path / "a.exr"), header_only=True).header()
    standard = {"channels", "chromaticities", "compression", "dataWindow", "displayWindow", "lineOrder"}
    standard |= {"pixelAspectRatio", "screenWindowCenter", "screenWindowWidth", "software", "type"}
    assert set(header) == standard | set(ATTRIBUTES)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, HEIGHT), st.integers(1, HEIGHT))
def test_bands_do_not_show_in_the_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: int, other: int
) -> None:
    path = tmp_path_factory.mktemp("exr") / "a.exr"
    assert write(path, picture(), rows) == write(path, picture(), other)


def test_memory_holds_a_band_and_not_the_picture(tmp_path: Path) -> None:
    """18 channels of 2048x1024 are 151 MB. Measured in a process of its own: the peak never falls."""
    grown = run_python(
        """
        import resource
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        band = {f"c{n:02d}": np.zeros((64, 2048), np.float32) for n in range(18)}
        before = peak()
        with ExrWriter(Path("big.exr"), 2048, 1024, {}) as exr:
            for _ in range(16):
                exr.write_rows(band)
        verify_exr(Path("big.exr"), 2048, 1024)
        print(peak() - before)
        """,
        tmp_path,
    )
    assert float(grown) < 75


@pytest.mark.parametrize("fault", ["short row", "missing channel", "too many rows", "too few rows", "error"])
def test_a_picture_that_was_not_finished_is_not_there(tmp_path: Path, fault: str) -> None:
    path, channels = tmp_path / "a.exr", picture()
    path.write_bytes(b"the old one")
    with pytest.raises(ZeroDivisionError if fault == "error" else ValueError):  # noqa: SIM117
        with ExrWriter(path, WIDTH, HEIGHT, {}) as exr:
            exr.write_rows({name: values[:20] for name, values in channels.items()})
            match fault:
                case "short row":
                    exr.write_rows({name: values[20:, :-1] for name, values in channels.items()})
                case "missing channel":
                    exr.write_rows({name: channels[name][20:] for name in NAMES[1:]})
                case "too many rows":
                    exr.write_rows(channels)
                case "error":
                    _ = 1 / 0
    assert path.read_bytes() == b"the old one"
    assert os.listdir(tmp_path) == ["a.exr"]


def test_a_full_disk_leaves_the_old_file(small_disk: Path) -> None:
    channels = picture(512, 512)
    exr, png, npy = (small_disk / name for name in ("a.exr", "a.png", "a.npy"))
    for path in (exr, png, npy):
        path.write_bytes(b"the old one")
    noise = np.random.default_rng(0).integers(0, 256, (800, 800, 3), np.uint8)
    with pytest.raises(OSError, match="No space left"):
        write(exr, channels)
    with pytest.raises(OSError, match="No space left"):
        write_png(png, noise)
    with pytest.raises(OSError, match=r"No space left|requested and"):
        write_npy(npy, noise.astype(np.float32))
    assert sorted(os.listdir(small_disk)) == ["a.exr", "a.npy", "a.png"]
    assert {path.read_bytes() for path in (exr, png, npy)} == {b"the old one"}


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_a_cut_off_file_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.exr"
    whole = write(path, picture())
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ImageInvalid, match=r"a\.exr"):
        verify_exr(path, WIDTH, HEIGHT)


def test_damaged_pixels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.exr"
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    data = bytearray(write(path, dict.fromkeys(NAMES, x + y)))  # smooth, so it is compressed and has sums
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(ImageInvalid, match="damaged"):
        verify_exr(path, WIDTH, HEIGHT)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_are_refused_with_their_channel(tmp_path: Path, value: float) -> None:
    channels = picture()
    channels["albedo.G"][-1, -1] = value
    write(tmp_path / "a.exr", channels)
    with pytest.raises(ImageInvalid, match=r"albedo\.G"):
        verify_exr(tmp_path / "a.exr", WIDTH, HEIGHT)


def test_another_size_and_another_file_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.exr", picture())
    with pytest.raises(ImageInvalid, match="37x53 pixels, not 53x37"):
        verify_exr(tmp_path / "a.exr", HEIGHT, WIDTH)
    (tmp_path / "b.exr").write_bytes(b"no picture at all")
    for name in ("b.exr", "nowhere.exr"):
        with pytest.raises(ImageInvalid, match=name):
            read_exr(tmp_path / name)
    with pytest.raises(KeyError, match="velocity"):
        read_exr(tmp_path / "a.exr", ["velocity.X"])


def test_half_floats_of_other_programs_are_read(tmp_path: Path) -> None:
    rgb = np.linspace(0, 2, 60).reshape(4, 5, 3).astype(np.float16)
    OpenEXR.File({"compression": OpenEXR.PIZ_COMPRESSION}, {"RGB": rgb}).write(str(tmp_path / "a.exr"))
    channels, _ = read_exr(tmp_path / "a.exr")
    assert channels["G"].dtype == np.float32
    assert np.array_equal(channels["G"], rgb[..., 1].astype(np.float32))


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


def run_python(code: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    lines = ["import numpy as np", "from pathlib import Path", "from tracer.images import *"]
    lines += [line.removeprefix("        ") for line in code.splitlines()]
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": root} | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
