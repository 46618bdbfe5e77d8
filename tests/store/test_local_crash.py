"""Writers of the local back end that are killed: no half blob is ever seen, and what is left can go."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from store import Conflict, LocalStore, Store, StoreUnavailable, open_store
from store import local as back_end
from store.blobs import get_blob, put_blob
from store.local import OWN_FOLDER
from tests.store.conftest import make_old, temporaries, wait_until
from tests.stress.processes import is_stopped, pid_of

SPAWN = multiprocessing.get_context("spawn")


@contextmanager
def writer_stopped_half_way(store: LocalStore, pipe: Path) -> Iterator[Any]:
    """A process that is in the middle of writing the key "half"."""
    os.mkfifo(pipe)
    process = SPAWN.Process(target=_put_from_pipe, args=(str(store.root), pipe), daemon=True)
    process.start()
    try:
        with open(pipe, "wb") as feed:
            feed.write(os.urandom(3 << 20))
            feed.flush()
            wait_until(lambda: any(path.stat().st_size >= 1 << 20 for path in temporaries(store)))
            yield process
    finally:
        process.kill()
        process.join()


def _put_from_pipe(root: str, pipe: Path) -> None:
    LocalStore(Path(root)).put_new("half", pipe)


def test_a_killed_writer_leaves_no_blob_and_its_leftover_can_go(local: LocalStore, tmp_path: Path) -> None:
    with writer_stopped_half_way(local, tmp_path / "pipe") as writer:
        assert local.stat("half") is None
        (leftover,) = temporaries(local)
        make_old(leftover)
        assert local.remove_leftovers() == 0  # its writer lives
        writer.kill()
        writer.join()
    assert list(local.list("")) == []
    assert temporaries(local) == [leftover]
    make_old(leftover)
    assert local.remove_leftovers() == 1
    assert temporaries(local) == []
    local.put_new("half", b"whole")


def _stop_while_locked(root: str) -> None:
    """A swap whose process stops itself between the comparison and the rename."""
    rename = os.rename

    def stop_then_rename(source: Path, target: Path) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        rename(source, target)

    os.rename = stop_then_rename  # type: ignore[assignment]
    store = LocalStore(Path(root))
    store.swap("key", b"late", store.get("key")[1].version)


def test_a_process_stopped_in_a_swap_is_named_and_not_waited_for(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_end, "LOCK_SECONDS", 0.1)
    first = local.put_new("key", b"first")
    process = SPAWN.Process(target=_stop_while_locked, args=(str(local.root),), daemon=True)
    process.start()
    pid = pid_of(process)
    try:
        wait_until(lambda: is_stopped(pid))
        for change in (lambda: local.swap("key", b"mine", first.version), lambda: local.delete("key")):
            with pytest.raises(StoreUnavailable, match=rf"key has been locked .* by process {pid},"):
                change()
        assert local.get("key")[0] == b"first"  # readers never wait
        assert [path for path in temporaries(local) if str(os.getpid()) in path.name] == []
        os.kill(pid, signal.SIGCONT)
        process.join()
        assert local.get("key")[0] == b"late"  # it had the lock and compared: its swap stands
        with pytest.raises(Conflict):
            local.swap("key", b"mine", first.version)
    finally:
        process.kill()
        process.join()


def test_a_young_leftover_stays(local: LocalStore) -> None:
    (local.root / OWN_FOLDER / "tmp" / "young").write_bytes(b"")
    assert local.remove_leftovers() == 0
    assert len(temporaries(local)) == 1


def test_a_leftover_that_has_its_name_already_goes_without_the_blob(local: LocalStore) -> None:
    """Killed between the link and the removal of the temporary name: both are the same file."""
    local.put_new("k", b"1")
    leftover = local.root / OWN_FOLDER / "tmp" / "leftover"
    os.link(local.root / "k", leftover)
    make_old(leftover)
    assert local.remove_leftovers() == 1
    assert local.get("k")[0] == b"1"


def test_kills_at_random_moments_leave_whole_blobs_only(store_url: str, store: Store) -> None:
    """Writers of content-addressed blobs and of one swapped blob are killed over and over."""
    store.put_new("swapped", b"0" * 300_000)
    for generation in range(6):
        before = sum(1 for _ in store.list("blobs/"))
        process = SPAWN.Process(target=_write_for_ever, args=(store_url, generation), daemon=True)
        process.start()
        wait_until(lambda seen=before: sum(1 for _ in store.list("blobs/")) > seen + 5)  # type: ignore[misc]
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        for blob in store.list("blobs/"):
            get_blob(store, blob.key.rsplit("/", 1)[-1])  # raises where it is not whole
        content = store.get("swapped")[0]
        assert len(content) == 300_000
        assert len(set(content)) == 1


def _write_for_ever(store_url: str, generation: int) -> None:
    store, number = open_store(store_url), 0
    while True:
        put_blob(store, b"%d %d" % (generation, number) * 50_000)
        seen = store.stat("swapped")
        assert seen is not None
        store.swap("swapped", b"%d" % (number % 10) * 300_000, seen.version)
        number += 1
