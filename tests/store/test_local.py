"""The local back end against real file systems: full, read-only, vanished; and what its files are."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from store import (
    LocalStore,
    NotFound,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
    open_store,
)
from store.local import OWN_FOLDER
from tests.store.conftest import temporaries, wait_until

NEVER = "1-1"


# --- open_store -----------------------------------------------------------------------------------


def test_a_path_and_a_file_url_open_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "with space"
    open_store(str(root)).put_new("k", b"1")
    monkeypatch.chdir(tmp_path)
    relative = open_store("with space")
    monkeypatch.chdir("/")
    for store in (relative, open_store(root.as_uri())):
        assert store.get("k")[0] == b"1"


@pytest.mark.parametrize("url", ["s3://", "http://host/", "file://host/path", "file://"])
def test_other_addresses_are_refused_with_what_would_do(url: str) -> None:
    with pytest.raises(StoreDenied, match="folder"):
        open_store(url)


def test_a_root_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreDenied, match="file"):
        LocalStore(tmp_path / "file")
    with pytest.raises(StoreDenied, match="below"):
        LocalStore(tmp_path / "file" / "below")


# --- disks that refuse ----------------------------------------------------------------------------


def test_a_full_disk(small_disk: Path) -> None:
    store = LocalStore(small_disk / "root")
    kept = store.put_new("kept", b"kept")
    big = os.urandom(2 << 20)
    with pytest.raises(StoreFull, match=r"big.*room"):
        store.put_new("big", big)
    with pytest.raises(StoreFull, match="kept"):
        store.swap("kept", big, kept.version)
    assert temporaries(store) == []
    assert [blob.key for blob in store.list("")] == ["kept"]
    assert store.get("kept") == (b"kept", kept)
    store.put_new("small", b"room for this")


def test_a_read_only_disk(small_disk: Path) -> None:
    writer = LocalStore(small_disk / "root")
    kept = writer.put_new("kept", b"kept")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for store in (writer, LocalStore(small_disk / "root")):
        calls: list[Callable[[], object]] = [
            lambda s=store: s.put_new("new", b""),  # type: ignore[misc]
            lambda s=store: s.swap("kept", b"", kept.version),  # type: ignore[misc]
            lambda s=store: s.delete("kept"),  # type: ignore[misc]
        ]
        for call in calls:
            with pytest.raises(StoreDenied, match="writable"):
                call()
        assert store.get("kept") == (b"kept", kept)
        assert list(store.list("")) == [kept]
    with pytest.raises(StoreDenied, match="other"):
        LocalStore(small_disk / "other")


def test_a_store_of_somebody_else(local: LocalStore) -> None:
    kept = local.put_new("kept", b"kept")
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    os.seteuid(65534)
    try:
        calls: list[Callable[[], object]] = [
            lambda: local.put_new("new", b""),
            lambda: local.get("kept"),
            lambda: local.stat("kept"),
            lambda: list(local.list("")),
            lambda: local.swap("kept", b"", kept.version),
            lambda: local.delete("kept"),
            lambda: LocalStore(local.root),
        ]
        for call in calls:
            with pytest.raises(StoreDenied, match="right"):
                call()
    finally:
        os.seteuid(0)
    assert local.get("kept") == (b"kept", kept)


@pytest.mark.parametrize("back_as", ["nothing", "an empty folder"])
def test_a_root_that_vanished_is_not_made_again(local: LocalStore, back_as: str) -> None:
    local.put_new("a/kept", b"kept")
    shutil.rmtree(local.root)
    if back_as == "an empty folder":
        local.root.mkdir()
    calls: list[Callable[[], object]] = [
        lambda: local.put_new("a/new", b""),
        lambda: local.swap("a/kept", b"", NEVER),
        lambda: local.get("a/kept"),
        lambda: local.open("a/kept"),
        lambda: local.stat("a/kept"),
        lambda: list(local.list("")) if back_as == "nothing" else list(local.list("a/")),
        lambda: local.delete("a/kept"),
    ]
    for call in calls:
        with pytest.raises(StoreDenied, match="root is gone"):
            call()
    assert not local.root.exists() or list(local.root.iterdir()) == []


def test_a_file_that_vanished(local: LocalStore) -> None:
    seen = local.put_new("a/b", b"1")
    (local.root / "a/b").unlink()
    with pytest.raises(NotFound, match="a/b"):
        local.get("a/b")
    with pytest.raises(NotFound, match="a/b"):
        local.swap("a/b", b"2", seen.version)
    shutil.rmtree(local.root / "a")
    assert list(local.list("a/")) == []
    local.put_new("a/b", b"back")
    assert local.get("a/b")[0] == b"back"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EIO, StoreUnavailable),
        (errno.ESTALE, StoreUnavailable),
        (errno.EMFILE, StoreUnavailable),
        (errno.EDQUOT, StoreFull),
        (errno.EXDEV, StoreDenied),
        (errno.EPERM, StoreDenied),
        (errno.EOPNOTSUPP, StoreDenied),
    ],
)
def test_other_errors_of_the_disk(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreError]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(kind, match="some/key") as caught:
        local.put_new("some/key", b"")
    assert str(local.root) in str(caught.value)
    assert temporaries(local) == []


def test_a_disk_that_keeps_whole_seconds_is_refused(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_times = os.utime

    def coarse(path: Any, ns: tuple[int, int]) -> None:
        set_times(path, ns=(ns[0] // 10**9 * 10**9,) * 2)

    monkeypatch.setattr(os, "utime", coarse)
    with pytest.raises(StoreDenied, match="nanoseconds"):
        local.put_new("k", b"")


# --- keys and files -------------------------------------------------------------------------------


def test_no_key_is_a_folder_of_another(local: LocalStore) -> None:
    local.put_new("a/b", b"")
    with pytest.raises(ValueError, match="folder of other keys"):
        local.put_new("a", b"")
    with pytest.raises(ValueError, match="below another key"):
        local.put_new("a/b/c", b"")
    assert [blob.key for blob in local.list("")] == ["a/b"]


def test_files_that_are_no_blobs_are_not_listed(local: LocalStore) -> None:
    local.put_new("k", b"")
    (local.root / ".hidden").write_bytes(b"")
    (local.root / "copy of k").write_bytes(b"")
    (local.root / OWN_FOLDER / "tmp" / "half").write_bytes(b"")
    assert [blob.key for blob in local.list("")] == ["k"]
    with pytest.raises(ValueError, match="is no key"):
        local.get(f"{OWN_FOLDER}/tmp/half")


def test_the_version_changes_while_the_clock_stands(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_800_000_000 * 10**9)
    versions = [local.put_new("k", b"same").version]
    for _ in range(50):
        versions.append(local.swap("k", b"same", versions[-1]).version)
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000 * 10**9)  # the clock is set back
    for _ in range(50):
        versions.append(local.swap("k", b"same", versions[-1]).version)
    assert len(set(versions)) == len(versions)


def test_a_new_root_is_on_the_disk_before_its_first_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    sync = os.fsync

    def fsync(handle: int) -> None:
        sync(handle)
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")))

    monkeypatch.setattr(os, "fsync", fsync)
    LocalStore(tmp_path / "a" / "root")
    assert {tmp_path, tmp_path / "a", tmp_path / "a/root", tmp_path / "a/root" / OWN_FOLDER} == set(synced)
    synced.clear()
    LocalStore(tmp_path / "a" / "root")
    assert synced == []


def test_a_name_is_given_only_to_what_is_on_the_disk(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut cannot be had in a test; the order of the system calls that makes one harmless can."""
    events: list[str] = []
    sync, link, rename, mkdir = os.fsync, os.link, os.rename, os.mkdir

    def name(path: object) -> str:
        relative = str(path).removeprefix(str(local.root)).lstrip("/")
        return "temporary" if relative.startswith(OWN_FOLDER) else relative or "root"

    def logged(event: str, call: Callable[..., None], which: int) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            call(*arguments)
            events.append(f"{event} {name(arguments[which])}")

        return run

    def fsync(handle: int) -> None:
        sync(handle)
        events.append(f"sync {name(os.readlink(f'/proc/self/fd/{handle}'))}")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", logged("link", link, 1))
    monkeypatch.setattr(os, "rename", logged("rename", rename, 1))
    monkeypatch.setattr(os, "mkdir", logged("mkdir", mkdir, 0))
    put = local.put_new("a/b/k", b"")
    assert events == [
        "sync temporary",
        *("mkdir a", "sync root", "mkdir a/b", "sync a"),
        *("link a/b/k", "sync a/b"),
    ]
    events.clear()
    local.swap("a/b/k", b"", put.version)
    assert events == ["sync temporary", "rename a/b/k", "sync a/b"]


def test_a_swap_that_has_compared_does_not_bring_a_deleted_key_back(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = local.put_new("k", b"old")
    deleter = threading.Thread(target=local.delete, args=("k",))
    waits = threading.Event()
    flock, rename = fcntl.flock, os.rename

    def flock_and_tell(file: Any, how: int) -> None:
        if threading.current_thread() is deleter:
            waits.set()
        flock(file, how)

    def rename_after_the_delete_has_come(source: Path, target: Path) -> None:
        deleter.start()
        wait_until(lambda: waits.is_set() or not deleter.is_alive())
        rename(source, target)

    monkeypatch.setattr(fcntl, "flock", flock_and_tell)
    monkeypatch.setattr(os, "rename", rename_after_the_delete_has_come)
    local.swap("k", b"new", seen.version)
    deleter.join()
    assert local.stat("k") is None


def test_a_reader_sees_one_version_while_others_swap(local: LocalStore) -> None:
    first = local.put_new("k", b"old")
    stream: BinaryIO = local.open("k")
    local.swap("k", b"new", first.version)
    with stream:
        assert stream.read() == b"old"


def test_a_listing_is_lazy(local: LocalStore) -> None:
    for key in ("a", "b", "z"):
        local.put_new(key, b"")
    blobs = local.list("")
    assert next(blobs).key == "a"
    local.delete("z")  # not reached yet, so not shown
    assert [blob.key for blob in blobs] == ["b"]
