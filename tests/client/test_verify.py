"""`tessera verify` finds every kind of damage to a published frame, and nothing wrong with a sound one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from client.desk import check_rendering
from client.errors import BadInput
from client.verify import Verification, load_manifest
from contracts import Manifest
from starter import main
from store import NotFound, Store, layout, open_store
from tests import frames
from tracer import engine


@pytest.fixture
def published(store_url: str) -> tuple[Store, Manifest]:
    store = open_store(store_url)
    request = frames.publish(store)
    return store, Manifest.decode(store.get(layout.manifest(request.job_id))[0])


def verify(store: Store, job_id: str) -> Verification:
    return Verification(store, *load_manifest(store, job_id), lambda step: None)


def replace(store: Store, key: str, change: Callable[[bytes], bytes]) -> None:
    data, _ = store.get(key)
    store.delete(key)
    store.put_new(key, change(data))


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


def test_a_sound_frame_verifies_and_deeply(published: tuple[Store, Manifest]) -> None:
    store, manifest = published
    found = verify(store, manifest.frame.job_id)
    assert found.faults == []
    assert any("byte for byte" in line for line in found.checked)
    check_rendering(store, found, 3, lambda step: None)
    assert found.faults == [] and "3 tiles rendered again" in found.checked


def test_the_manifest_says_who_made_what(published: tuple[Store, Manifest]) -> None:
    frame, publication = published[1].frame, published[1].publication
    assert {file.path for file in frame.bundle.files} >= {"cornell.gltf", "cornell.bin"}
    assert len(frame.films) == 6 == len(publication.tiles)
    assert [record.attempts for record in publication.tiles] == [3, 1, 1, 1, 1, 1]
    assert {record.worker for record in publication.tiles} == {frames.WORKER}
    assert publication.fence == 1


@pytest.mark.parametrize("damage", [flipped, lambda data: data[: len(data) // 2], lambda data: b""])
@pytest.mark.parametrize("part", ["film", "exr", "png", "scene file"])
def test_damage_is_found(
    published: tuple[Store, Manifest], part: str, damage: Callable[[bytes], bytes]
) -> None:
    store, manifest = published
    frame = manifest.frame
    key = {
        "film": frame.films[2].key,
        "exr": frame.images[0].key,
        "png": frame.images[1].key,
        "scene file": layout.blob(frame.bundle.files[0].sha256),
    }[part]
    replace(store, key, damage)
    faults = verify(store, frame.job_id).faults
    assert len(faults) == 1 and key in faults[0], faults
    store.delete(key)
    faults = verify(store, frame.job_id).faults
    assert len(faults) == 1 and f"{key}: gone" in faults[0]


def test_every_flipped_bit_of_a_manifest_is_found(published: tuple[Store, Manifest]) -> None:
    store, manifest = published
    data, _ = store.get(layout.manifest(manifest.frame.job_id))
    for position in range(0, len(data), 97):
        bad = data[:position] + bytes([data[position] ^ (1 << position % 7)]) + data[position + 1 :]
        with pytest.raises(ValueError):
            Manifest.decode(bad)
    found = Verification(store, manifest.frame.job_id, flipped(data), lambda step: None)
    assert len(found.faults) == 1 and "damaged" in found.faults[0]


def resealed(manifest: Manifest, **changes: object) -> bytes:
    """A manifest whose own hash is right and whose content is not."""
    return Manifest(
        frame=manifest.frame.model_copy(update=changes), publication=manifest.publication
    ).encode()


def test_a_missing_tile_is_found(published: tuple[Store, Manifest]) -> None:
    store, manifest = published
    data = resealed(manifest, films=manifest.frame.films[1:])
    faults = Verification(store, manifest.frame.job_id, data, lambda step: None).faults
    assert any("5 films are not one of each of 6 tiles" in fault for fault in faults)


def test_a_film_of_another_scene_is_found(published: tuple[Store, Manifest]) -> None:
    store, manifest = published
    other = frames.submit(store, seed=7)
    frames.render(store, other)
    wanted = manifest.frame.films[0]
    foreign = layout.film(other.sample_key(engine.fingerprint()), wanted.tile_id, wanted.samples)
    replace(store, wanted.key, lambda data: store.get(foreign)[0])
    faults = verify(store, manifest.frame.job_id).faults
    assert len(faults) == 1 and "sample_key" in faults[0]
    # Also where somebody has made the manifest say so.
    record = wanted.model_copy(update={"key": foreign})
    data = resealed(manifest, films=(record, *manifest.frame.films[1:]))
    faults = Verification(store, manifest.frame.job_id, data, lambda step: None).faults
    assert any("sample_key" in fault for fault in faults)


def test_a_manifest_that_contradicts_itself_is_found(published: tuple[Store, Manifest]) -> None:
    store, manifest = published
    for changes, words in (
        ({"film_sha256": "0" * 64}, "another film"),
        ({"idempotency_key": "0" * 64}, "its key"),
        ({"nonfinite_samples": 3}, "non-finite"),
        ({"sample_key": "0" * 64}, "sample_key"),
        ({"request": manifest.frame.request.model_copy(update={"samples_per_pixel": 5})}, "its key"),
    ):
        data = resealed(manifest, **changes)
        faults = Verification(store, manifest.frame.job_id, data, lambda step: None).faults
        assert any(words in fault for fault in faults), (changes, faults)


def test_pictures_of_another_engine_are_compared_by_pixels(
    published: tuple[Store, Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, manifest = published
    monkeypatch.setattr(engine, "fingerprint", lambda: "another")
    found = verify(store, manifest.frame.job_id)
    assert found.faults == [] and any("bytes not compared" in line for line in found.checked)
    with pytest.raises(BadInput, match="engine"):
        check_rendering(store, found, 1, lambda step: None)


def test_deep_finds_a_film_that_was_not_rendered_so(published: tuple[Store, Manifest]) -> None:
    store, manifest = published
    found = verify(store, manifest.frame.job_id)
    assert found.frame is not None
    films = tuple(film.model_copy(update={"sha256": "0" * 64}) for film in found.frame.films)
    found.frame = found.frame.model_copy(update={"films": films})
    check_rendering(store, found, 2, lambda step: None)
    assert len(found.faults) == 2 and "rendered again" in found.faults[0]


def test_the_command(
    published: tuple[Store, Manifest],
    store_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store, manifest = published
    job_id, key = manifest.frame.job_id, layout.manifest(manifest.frame.job_id)
    monkeypatch.setenv("TESSERA_STORE", store_url)
    assert main(["verify", job_id, "--deep", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is True
    assert main(["verify", key]) == 0
    assert "exactly what its manifest claims" in capsys.readouterr().out
    local = tmp_path / f"{job_id}.json"
    local.write_bytes(store.get(key)[0])
    assert main(["verify", str(local)]) == 0
    capsys.readouterr()
    replace(store, manifest.frame.films[0].key, flipped)
    assert main(["verify", job_id, "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["faults"]) == 1
    assert main(["verify", "frame-unknown"]) == 2
    with pytest.raises(NotFound):
        store.get(layout.manifest("frame-unknown"))
