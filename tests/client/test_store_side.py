"""What goes into the store before a frame starts, and what the store alone answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.errors import BadInput, Unreachable
from client.presence import lease_of
from client.published import answered, is_job_name, published, recorded, stored_tiles
from client.request import Options, make_requests
from client.upload import upload
from contracts import ErrorCode, FrameStatus, SceneBundle
from store import LocalStore, layout
from store.blobs import get_blob
from store.lease import acquire
from tests.client.published_frame import HEIGHT, WIDTH, Publish


def test_an_upload_holds_every_byte_that_was_hashed(scene: Path, store: LocalStore) -> None:
    requests, local = make_requests(scene, [1, 2], Options())
    upload(store, local, requests)
    data, _ = store.get(layout.bundle(requests[0].scene.version))
    bundle = SceneBundle.model_validate_json(data)
    assert bundle == local.bundle and bundle.version == requests[0].scene.version
    for file in bundle.files:
        assert get_blob(store, file.sha256) == local.paths[file.path].read_bytes()
    assert {stat.key for stat in store.list("jobs/")} == {layout.job(r.job_id) for r in requests}
    upload(store, local, requests)  # again is nothing


def test_a_file_that_changes_between_hash_and_upload_is_refused(scene: Path, store: LocalStore) -> None:
    requests, local = make_requests(scene, [1], Options())
    (scene.parent / "colours.mtl").write_text("newmtl red\nKd 0 1 0\n")
    with pytest.raises(BadInput, match=r"colours\.mtl: changed"):
        upload(store, local, requests)
    assert list(store.list("jobs/")) == []


def test_a_job_of_the_same_name_and_another_key_is_a_conflict(
    scene: Path, store: LocalStore, publish: Publish
) -> None:
    (mine, other), local = make_requests(scene, [1, 2], Options())
    store.put_new(layout.job(mine.job_id), other.model_dump_json().encode())
    with pytest.raises(BadInput, match="idempotency_conflict") as raised:
        upload(store, local, [mine])
    assert raised.value.code is ErrorCode.IDEMPOTENCY_CONFLICT

    publish(store, other)
    with pytest.raises(BadInput, match="idempotency_conflict"):
        published(store, other.job_id, mine.idempotency_key)


def test_a_published_frame_is_answered_by_the_store(scene: Path, store: LocalStore, publish: Publish) -> None:
    (asked,), _ = make_requests(scene, [3], Options(samples_per_pixel=5))
    assert published(store, asked.job_id) is None and recorded(store, asked.job_id) is None
    manifest = publish(store, asked)
    status = recorded(store, asked.job_id)
    assert status is not None and status.result is not None
    assert (status.status, status.progress, status.frame) == (FrameStatus.COMPLETED, 1.0, 3)
    target = WIDTH * HEIGHT * 5
    assert (status.samples.target, status.samples.rendered, status.samples.resumed) == (
        target,
        target - 24,
        24,
    )
    assert status.attempts.total == 3
    assert status.result.sha256 == manifest.frame.images[0].sha256
    again = answered(status)
    assert (again.samples.rendered, again.samples.resumed, again.attempts.total) == (0, target, 0)
    assert again.result == status.result


def test_a_job_that_only_the_store_remembers_can_be_submitted_again(scene: Path, store: LocalStore) -> None:
    requests, local = make_requests(scene, [1], Options())
    upload(store, local, requests)
    status = recorded(store, requests[0].job_id)
    assert status is not None and status.note is not None
    assert status.status is FrameStatus.CANCELLED and "submit it again" in status.note


def test_a_damaged_record_is_said_to_be_damaged(scene: Path, store: LocalStore) -> None:
    (asked,), _ = make_requests(scene, [1], Options())
    store.put_new(layout.job(asked.job_id), b"{")
    with pytest.raises(Unreachable, match="damaged"):
        recorded(store, asked.job_id)
    store.put_new(layout.manifest(asked.job_id), b'{"frame": 1}')
    with pytest.raises(Unreachable, match="damaged"):
        published(store, asked.job_id)


def test_stored_tiles_are_those_a_frame_would_go_on_from(store: LocalStore) -> None:
    key = "a" * 64
    for tile_id, samples in (
        ("x0000y0000w0004h0002", 3),
        ("x0000y0000w0004h0002", 5),
        ("x0004y0000w0002h0002", 8),
        ("x0004y0000w0002h0002", 64),  # of a frame with more samples
    ):
        store.put_new(layout.film(key, tile_id, samples), b"film")
    assert stored_tiles(store, key, 8) == {"x0000y0000w0004h0002": 5, "x0004y0000w0002h0002": 8}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 300, "a b", "ü"])
def test_what_cannot_be_a_job_is_told_without_asking(name: str) -> None:
    assert not is_job_name(name)


def test_a_lease_is_told_while_somebody_holds_it(store: LocalStore) -> None:
    assert lease_of(store, "frame-a") is None
    with acquire(store, layout.lease("frame-a"), "run/finalize/1", 30.0):
        found = lease_of(store, "frame-a")
        assert found is not None and (found.owner, found.fence) == ("run/finalize/1", 1)
        assert 0 < (found.expires_at - store.now()).total_seconds() <= 30
    assert lease_of(store, "frame-a") is None
