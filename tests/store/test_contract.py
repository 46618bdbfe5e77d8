"""What every back end has to do. The model is a dict."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from store import AlreadyExists, BlobStat, Conflict, LeaseLost, NotFound, Store, open_store

KEYS = ["a/b/c", "a/b/d", "a-b", "a.b", "a/b-c", "z", "films/0/x0000y0000w0064h0064/00000016.film"]
NEVER = "1-1"
"""A version that no write has."""


def test_what_is_put_is_got(store: Store) -> None:
    put = store.put_new("a/b", b"content")
    assert store.get("a/b") == (b"content", put)
    assert store.stat("a/b") == put
    assert (put.key, put.size) == ("a/b", 7)
    assert abs(put.modified - datetime.now(UTC)) < timedelta(minutes=5)
    with store.open("a/b") as stream:
        assert stream.read(3) == b"con"


def test_a_taken_key_is_refused_and_keeps_its_content(store: Store) -> None:
    first = store.put_new("k", b"first")
    with pytest.raises(AlreadyExists, match="k"):
        store.put_new("k", b"first")
    assert store.get("k") == (b"first", first)


def test_a_file_is_stored_whole(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 20_000)
    assert store.put_new("big", source).size == 256 * 20_000
    assert store.get("big")[0] == source.read_bytes()


def test_a_source_that_is_missing_is_the_callers_error(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.put_new("k", tmp_path / "nowhere")
    assert store.stat("k") is None


def test_swap_replaces_only_what_was_seen(store: Store) -> None:
    first = store.put_new("k", b"one")
    second = store.swap("k", b"two", first.version)
    with pytest.raises(Conflict, match="k"):
        store.swap("k", b"three", first.version)
    with pytest.raises(NotFound):
        store.swap("absent", b"", first.version)
    assert store.get("k") == (b"two", second)


def test_equal_bytes_are_another_version(store: Store) -> None:
    versions = [store.put_new("k", b"same").version]
    for _ in range(40):
        versions.append(store.swap("k", b"same", versions[-1]).version)
    for _ in range(40):
        store.delete("k")
        versions.append(store.put_new("k", b"same").version)
    assert len(set(versions)) == len(versions)


def test_delete_of_a_version_and_of_what_is_absent(store: Store) -> None:
    first = store.put_new("k", b"one")
    second = store.swap("k", b"two", first.version)
    with pytest.raises(Conflict):
        store.delete("k", first.version)
    assert store.stat("k") == second
    store.delete("k", second.version)
    assert store.stat("k") is None
    store.delete("k")
    store.delete("k", NEVER)
    store.delete("no/such/folder")


def test_what_is_absent_is_not_found(store: Store) -> None:
    store.put_new("a/b", b"")
    for key in ("x", "a", "a/b/c", "a/c"):
        assert store.stat(key) is None
        with pytest.raises(NotFound, match=key):
            store.get(key)
        with pytest.raises(NotFound, match=key):
            store.open(key)
        store.delete(key)
    assert store.stat("a/b") is not None


def test_list_is_in_key_order(store: Store) -> None:
    for key in reversed(KEYS):
        store.put_new(key, key.encode())
    assert [blob.key for blob in store.list("")] == sorted(KEYS)
    assert [blob.key for blob in store.list("a")] == sorted(k for k in KEYS if k.startswith("a"))
    assert [blob.key for blob in store.list("a/b/")] == ["a/b/c", "a/b/d"]
    assert [blob.key for blob in store.list("a/b/c")] == ["a/b/c"]
    assert list(store.list("nothing/here/")) == []
    assert all(blob == store.stat(blob.key) for blob in store.list(""))


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", ".hidden", "a/.b", "a b", "ä"),
        *("a\\b", "a\n", "a\0", "a:b", "a" * 201, "/".join(["a" * 100] * 12)),
    ],
)
def test_what_is_no_key_is_refused(store: Store, key: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.put_new(key, b""),
        lambda: store.swap(key, b"", NEVER),
        lambda: store.get(key),
        lambda: store.open(key),
        lambda: store.stat(key),
        lambda: store.delete(key),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is no key"):
            call()


def test_a_listing_cannot_climb_out(store: Store) -> None:
    with pytest.raises(ValueError, match="is no key"):
        store.list("../")


class StoreModel(RuleBasedStateMachine):
    """Any sequence of calls gives what a dict of (content, version) gives, and no version comes twice."""

    keys = st.sampled_from(KEYS)
    contents = st.binary(max_size=4)

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.model: dict[str, tuple[bytes, str]] = {}
        self.versions: set[tuple[str, str]] = set()

    def wrote(self, blob: BlobStat, data: bytes) -> None:
        assert blob.size == len(data)
        assert (blob.key, blob.version) not in self.versions
        self.versions.add((blob.key, blob.version))
        self.model[blob.key] = (data, blob.version)

    @rule(key=keys, data=contents)
    def put_new(self, key: str, data: bytes) -> None:
        if key in self.model:
            with pytest.raises(AlreadyExists):
                self.store.put_new(key, data)
        else:
            self.wrote(self.store.put_new(key, data), data)

    @rule(key=keys, data=contents, stale=st.booleans())
    def swap(self, key: str, data: bytes, stale: bool) -> None:
        if key not in self.model:
            with pytest.raises(NotFound):
                self.store.swap(key, data, NEVER)
        elif stale:
            with pytest.raises(Conflict):
                self.store.swap(key, data, NEVER)
        else:
            self.wrote(self.store.swap(key, data, self.model[key][1]), data)

    @rule(key=keys, how=st.sampled_from(["any", "right", "stale"]))
    def delete(self, key: str, how: str) -> None:
        if key in self.model and how == "stale":
            with pytest.raises(Conflict):
                self.store.delete(key, NEVER)
        else:
            version = self.model[key][1] if how == "right" and key in self.model else None
            self.store.delete(key, version)
            self.model.pop(key, None)

    @rule(prefix=st.sampled_from(["", "a", "a/", "a/b", "films/0/", "nothing"]))
    def list(self, prefix: str) -> None:
        found = [(blob.key, blob.version) for blob in self.store.list(prefix)]
        assert found == sorted((k, v) for k, (_, v) in self.model.items() if k.startswith(prefix))

    @invariant()
    def reads_agree(self) -> None:
        for key in KEYS:
            blob = self.store.stat(key)
            if key in self.model:
                assert blob is not None
                assert self.store.get(key) == (self.model[key][0], blob)
                assert blob.version == self.model[key][1]
            else:
                assert blob is None


def test_the_store_behaves_like_a_dict(new_store_url: Callable[[], str]) -> None:
    class Machine(StoreModel):
        def __init__(self) -> None:
            super().__init__(open_store(new_store_url()))

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=8 if new_store_url().startswith("s3:") else 40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_long_put_tells_its_progress_and_can_be_stopped(store: Store, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(5 << 20))
    steps: list[str] = []
    store.put_new("blobs/large", large, steps.append)
    assert len(steps) >= 4

    def stop(step: str) -> None:
        raise LeaseLost("taken over")

    with pytest.raises(LeaseLost, match="taken over"):
        store.put_new("blobs/stopped", large, stop)
    assert store.stat("blobs/stopped") is None


def test_a_swap_takes_a_file(store: Store, tmp_path: Path) -> None:
    first = store.put_new("blobs/x", b"same")
    path = tmp_path / "file"
    path.write_bytes(b"same")
    second = store.swap("blobs/x", path, first.version)
    assert second.version != first.version and store.get("blobs/x") == (b"same", second)
