"""Fetching: the published bytes or nothing, and an old file stays until the new one is whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from client.errors import BadInput, Unreachable
from client.fetch import check_outputs, fetch
from client.request import Options, make_requests
from contracts import Manifest
from store import LocalStore
from tests.client.published_frame import HEIGHT, WIDTH, Publish


@pytest.fixture
def manifest(scene: Path, store: LocalStore, publish: Publish) -> Manifest:
    return publish(store, make_requests(scene, [1], Options())[0][0])


def test_each_format_comes_from_the_published_exr(
    store: LocalStore, manifest: Manifest, tmp_path: Path
) -> None:
    outputs = [tmp_path / name for name in ("a – ü.exr", "b.PNG", "c.npy")]
    fetch(store, manifest, outputs)
    data, _ = store.get(manifest.frame.images[0].key)
    assert outputs[0].read_bytes() == data
    with Image.open(outputs[1]) as picture:
        assert picture.size == (WIDTH, HEIGHT)
    pixels = np.load(outputs[2])
    assert pixels.shape == (HEIGHT, WIDTH, 3) and pixels.dtype == np.float32
    assert pixels[-1, -1].tolist() == [2.0, 1.0, 0.5]


def test_exposure_acts_on_the_png_alone(store: LocalStore, manifest: Manifest, tmp_path: Path) -> None:
    def values(name: str) -> int:
        with Image.open(tmp_path / name) as picture:
            return int(np.asarray(picture, dtype=np.int64).sum())

    for name, exposure in (("plain", 0.0), ("bright", 2.0), ("auto", None)):
        fetch(store, manifest, [tmp_path / f"{name}.png", tmp_path / f"{name}.npy"], exposure)
    assert values("bright.png") > values("plain.png") != values("auto.png")
    assert len({(tmp_path / f"{n}.npy").read_bytes() for n in ("plain", "bright", "auto")}) == 1


def test_a_damaged_or_missing_blob_is_never_written(
    store: LocalStore, manifest: Manifest, tmp_path: Path
) -> None:
    target = tmp_path / "a.exr"
    target.write_bytes(b"old")
    blob = store.root / manifest.frame.images[0].key
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    with pytest.raises(Unreachable, match="damaged"):
        fetch(store, manifest, [target])
    blob.unlink()
    with pytest.raises(Unreachable, match="gone"):
        fetch(store, manifest, [target])
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.glob(".tessera-*")] == []


def test_an_existing_target_is_replaced(store: LocalStore, manifest: Manifest, tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    target.write_bytes(b"old")
    fetch(store, manifest, [target])
    assert target.read_bytes()[:4] == b"\x89PNG"


def test_a_full_disk_keeps_the_old_file(store: LocalStore, manifest: Manifest, small_disk: Path) -> None:
    target = small_disk / "a.exr"
    target.write_bytes(b"old")
    (small_disk / "filler").write_bytes(bytes((1 << 20) - (1 << 12)))
    with pytest.raises(BadInput, match="No space"):
        fetch(store, manifest, [target, small_disk / "a.npy", small_disk / "a.png"])
    assert target.read_bytes() == b"old"
    assert {path.name for path in small_disk.iterdir()} == {"a.exr", "filler"}


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a.jpg"], r"\.exr \.png \.npy"),
        (["a"], "extension"),
        (["nowhere/a.exr"], "folder nowhere is not there"),
        (["folder.exr"], "is a folder"),
        (["a.exr", "a.exr"], "named twice"),
        (["x" * 300 + "/a.exr"], "name too long"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_before_anything_renders(
    names: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.exr").mkdir()
    with pytest.raises(BadInput, match=says):
        check_outputs(map(Path, names))
