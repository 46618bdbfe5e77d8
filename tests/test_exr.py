"""OpenEXR files: standard readers agree with ours, the same pixels are the same bytes however they were
cut into bands, and a file is there whole or not at all."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import OpenEXR
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import run_python
from tracer.images import ExrReader, ExrWriter, Float32, ImageInvalid, read_exr, verify_exr

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
    path = small_disk / "a.exr"
    path.write_bytes(b"the old one")
    with pytest.raises(OSError, match="No space left"):
        write(path, picture(512, 512))
    assert os.listdir(small_disk) == ["a.exr"]
    assert path.read_bytes() == b"the old one"


def test_a_file_without_its_last_rows_is_refused(tmp_path: Path) -> None:
    """What a writer leaves that ended early but properly."""
    path, band = tmp_path / "a.exr", np.zeros((20, WIDTH), np.float32)
    file = OpenEXR.OutputFile(str(path), OpenEXR.Header(WIDTH, HEIGHT))
    file.writePixels(dict.fromkeys("RGB", band), 20)
    file.close()
    with pytest.raises(ImageInvalid, match="rows are missing"):
        read_exr(path)


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


def test_no_damage_crashes_the_process(tmp_path: Path) -> None:
    """Also not an attribute of a type that nobody knows, which a valid file may have."""
    code = """
        band = np.zeros((20, 30), np.float32)
        with ExrWriter(Path("a.exr"), 30, 20, {"tessera.seed": "0"}) as exr:
            exr.write_rows({"R": band, "G": band, "albedo.B": band})
        whole = Path("a.exr").read_bytes()
        random = np.random.default_rng(3)
        damaged = [whole.replace(b"string\\0", b"strung\\0")]
        for place in range(8, 600, 2):
            damaged.append(whole[:place] + random.bytes(1) + whole[place + 1 :])
        for number, data in enumerate(damaged):
            Path("a.exr").write_bytes(data)
            try:
                read_exr(Path("a.exr"))
            except ImageInvalid:
                print(number)
        """
    refused = run_python(code, tmp_path).split()
    assert "0" not in refused
    assert len(refused) > 50


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
