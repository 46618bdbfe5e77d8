"""The commit: one manifest, whatever else tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import BlobCorrupt, BlobStat, NotFound, OutputConflict, Store, StoreUnavailable, layout
from store.publish import publish, put_verified

JOB = "frame-p-scene-default-0001-0123456789abcdef"


def same_picture(manifest: bytes) -> bytes:
    return manifest.split(b" by ", 1)[0]


def test_the_first_manifest_is_published_and_stays(store: Store) -> None:
    first, second = b"picture 1 by attempt 1", b"picture 1 by attempt 2"
    assert publish(store, JOB, first, lambda _: pytest.fail("nothing to compare with")) == first
    assert publish(store, JOB, second, lambda old: same_picture(old) == same_picture(second)) == first
    assert store.get(layout.manifest(JOB))[0] == first


def test_a_lost_reply_is_no_conflict(store: Store) -> None:
    publish(store, JOB, b"picture", lambda _: False)
    assert publish(store, JOB, b"picture", lambda _: False) == b"picture"


def test_another_picture_is_a_conflict_and_overwrites_nothing(store: Store) -> None:
    publish(store, JOB, b"picture 1", lambda _: False)
    with pytest.raises(OutputConflict, match=JOB):
        publish(store, JOB, b"picture 2", lambda _: False)
    assert store.get(layout.manifest(JOB))[0] == b"picture 1"


def test_a_manifest_that_cannot_be_read_is_a_conflict(store: Store) -> None:
    store.put_new(layout.manifest(JOB), b"{")

    def unreadable(manifest: bytes) -> bool:
        raise ValueError("no JSON")

    with pytest.raises(OutputConflict, match="cannot be read"):
        publish(store, JOB, b"picture", unreadable)


def test_a_manifest_that_is_never_to_be_seen_is_unavailable(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_new(layout.manifest(JOB), b"picture")

    def gone(key: str) -> tuple[bytes, BlobStat]:
        raise NotFound(key)

    monkeypatch.setattr(store, "get", gone)
    with pytest.raises(StoreUnavailable):
        publish(store, JOB, b"picture", lambda _: True)


def test_verified_uploads_tell_hash_and_size(store: Store, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"pixels")
    by_path = put_verified(store, "images/a", tmp_path / "picture")
    assert by_path == put_verified(store, "images/b", b"pixels")
    assert by_path == put_verified(store, "images/a", b"pixels")  # the reply of the first one was lost
    assert by_path[1] == 6


def test_what_reads_back_otherwise_is_not_verified(store: Store) -> None:
    store.put_new("images/a", b"pixel")
    with pytest.raises(BlobCorrupt, match="images/a"):
        put_verified(store, "images/a", b"pixels")
