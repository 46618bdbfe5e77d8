"""Content-addressed blobs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import BlobCorrupt, BlobStat, NotFound, Store, layout
from store.blobs import get_blob, put_blob


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.binary(max_size=100))
def test_content_comes_back_by_its_hash(store: Store, data: bytes) -> None:
    sha256 = put_blob(store, data)
    assert sha256 == hashlib.sha256(data).hexdigest() == put_blob(store, data)
    assert get_blob(store, sha256) == data


def test_a_file_is_the_same_blob_as_its_bytes(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content" * 1000)
    assert put_blob(store, tmp_path / "file") == put_blob(store, b"content" * 1000)


def test_what_is_there_is_not_sent_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = put_blob(store, b"content")
    monkeypatch.setattr(store, "put_new", lambda *_: pytest.fail("sent again"))
    assert put_blob(store, b"content") == sha256


def test_damage_is_named(store: Store) -> None:
    sha256 = put_blob(store, b"content")
    key = layout.blob(sha256)
    seen = store.stat(key)
    assert seen is not None
    seen = store.swap(key, b"Content", seen.version)
    with pytest.raises(BlobCorrupt, match=sha256):
        get_blob(store, sha256)
    store.swap(key, b"", seen.version)
    with pytest.raises(BlobCorrupt, match=sha256):
        put_blob(store, b"content")


def test_what_is_absent_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        get_blob(store, "0" * 64)


def test_a_file_that_changes_while_it_is_stored_is_not_stored(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, put_new = tmp_path / "scene.gltf", store.put_new
    path.write_bytes(b"before")

    def edited_first(key: str, data: bytes | Path) -> BlobStat:
        path.write_bytes(b"edited")
        return put_new(key, data)

    monkeypatch.setattr(store, "put_new", edited_first)
    with pytest.raises(BlobCorrupt, match="changed while"):
        put_blob(store, path)
    assert list(store.list("blobs/")) == []
