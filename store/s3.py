"""The store in an S3 bucket, for the processes of many hosts.

An object is the content and a trailer of its own: a mark and a nonce that no two writes share. So an ETag
names one write and not a content (equal bytes that come back later are another version), and a write whose
reply was lost is known by its nonce. Conditions are checked by the server, by plain put_object and
delete_object only: multipart completion has let two writers win. Such a request is sent once; what a lost
reply or a 409 means is found out by looking, before the very same bytes are sent again.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from store.base import BlobStat, Progress, opened, silent
from store.errors import AlreadyExists, BlobCorrupt, Conflict, NotFound, StoreDenied, StoreUnavailable
from store.layout import check_key
from store.s3_faults import ABSENT, CONDITION, FAULTS, RETRY, kind_of, to_store_error
from store.s3_streams import TRAILER, Body, ContentStream, split_trailer

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

DEADLINE = 20.0
"""Seconds that one call may take with all its tries: it has to fit between heartbeats of the work around."""
CONNECT_TIMEOUT, READ_TIMEOUT = 3, 5
READ_TRIES = 3
LONGEST_READ = READ_TRIES * READ_TIMEOUT
"""Seconds that a request to a server takes which accepts it and never answers: botocore's tries, each to its
end. What would begin one later than this before its deadline would outlive it."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

Answer = TypeVar("Answer")


class S3Store:
    """store.base.Store in a bucket, below a prefix. See the module for how.

    Endpoint, credentials, region and addressing are found by boto3's own means. Raises StoreDenied where
    the server does not honour conditions: see `prove`.
    """

    def __init__(self, bucket: str, prefix: str = "") -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        if self._prefix:
            check_key(self._prefix.rstrip("/"))
        self._clients: dict[int, tuple[S3Client, S3Client]] = {}

    def now(self) -> datetime:
        answer = self._read("ask for the time", lambda s3: s3.list_objects_v2(Bucket=self._bucket, MaxKeys=1))
        return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).astimezone(UTC)

    def put_new(self, key: str, data: bytes | Path, progress: Progress = silent) -> BlobStat:
        name = self._name(key)
        with opened(data) as source:
            body = Body(source, uuid.uuid4().bytes, progress)

            def send(s3: S3Client) -> str:
                body.seek(0)
                answer = s3.put_object(
                    Bucket=self._bucket, Key=name, Body=cast(BinaryIO, body), IfNoneMatch="*"
                )
                return answer["ETag"]

            version = self._write(f"create {key}", key, body, send)
            if version is None:
                raise AlreadyExists(f"{key} is there already")
        return self._written(key, len(body), version)

    def swap(self, key: str, data: bytes | Path, expected: str) -> BlobStat:
        name = self._name(key)
        with opened(data) as source:
            body = Body(source, uuid.uuid4().bytes)

            def send(s3: S3Client) -> str:
                body.seek(0)
                answer = s3.put_object(
                    Bucket=self._bucket, Key=name, Body=cast(BinaryIO, body), IfMatch=expected
                )
                return answer["ETag"]

            version = self._write(f"swap {key}", key, body, send)
        if version is None:
            if self.stat(key) is None:
                raise NotFound(f"{key}: not in the store")
            raise Conflict(f"{key} is not at the version that was seen any more")
        return self._written(key, len(body), version)

    def get(self, key: str) -> tuple[bytes, BlobStat]:
        name = self._name(key)

        def read(s3: S3Client) -> tuple[bytes, BlobStat]:
            answer = s3.get_object(Bucket=self._bucket, Key=name)
            data = answer["Body"].read()
            if len(data) != answer["ContentLength"]:
                raise OSError(f"{len(data)} of {answer['ContentLength']} bytes arrived")
            content, _ = split_trailer(key, data)
            return content, _stat(key, answer["ContentLength"], answer["ETag"], answer["LastModified"])

        return self._read(f"read {key}", read)

    def open(self, key: str) -> BinaryIO:
        name = self._name(key)
        answer = self._read(f"open {key}", lambda s3: s3.get_object(Bucket=self._bucket, Key=name))
        return ContentStream(key, answer["Body"], answer["ContentLength"])

    def stat(self, key: str) -> BlobStat | None:
        name = self._name(key)
        try:
            answer = self._read(f"look up {key}", lambda s3: s3.head_object(Bucket=self._bucket, Key=name))
        except NotFound:
            return None
        return _stat(key, answer["ContentLength"], answer["ETag"], answer["LastModified"])

    def list(self, prefix: str) -> Iterator[BlobStat]:
        folder = prefix.rpartition("/")[0]
        if folder:
            check_key(folder)
        # Servers with folders inside list "a/b" before "a-b"; keys order them the other way round.
        return iter(sorted(self._pages(prefix)))

    def _pages(self, prefix: str) -> Iterator[BlobStat]:
        token: dict[str, Any] = {}
        while True:
            page = self._read(
                f"list {prefix}",
                lambda s3, token=token: s3.list_objects_v2(  # type: ignore[misc]
                    Bucket=self._bucket, Prefix=self._prefix + prefix, **token
                ),
            )
            for found in page.get("Contents", []):
                key = found["Key"].removeprefix(self._prefix)
                yield _stat(key, found["Size"], found["ETag"], found["LastModified"])
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, key: str, expected: str | None = None) -> None:
        """Absent is success, also where an earlier try of ours removed it and its reply was lost."""
        until, pause = time.monotonic() + DEADLINE, FIRST_PAUSE
        while True:
            try:
                return self.remove_if(key, expected)
            except Conflict:
                if self.stat(key) is None:
                    return
                raise
            except StoreUnavailable:
                if time.monotonic() > until:
                    raise
            pause = _wait(pause)

    def remove_if(self, key: str, expected: str | None) -> None:
        """One request, whose condition the server checks. Raises Conflict, also where the key is absent."""
        name, condition = self._name(key), {} if expected is None else {"IfMatch": expected}
        try:
            self._writer().delete_object(
                Bucket=self._bucket,
                Key=name,
                **condition,  # type: ignore[arg-type]
            )
        except FAULTS as error:
            kind = kind_of(error)
            if kind == CONDITION:
                raise Conflict(f"{key} is not at the version that was seen any more") from error
            if kind != ABSENT:
                raise to_store_error(error, f"delete {key}") from error

    # --- requests -------------------------------------------------------------------------------

    def _write(self, what: str, key: str, body: Body, send: Callable[[S3Client], str]) -> str | None:
        """Sends a conditional write until it is known what became of it: its version, or None where its
        condition failed.

        The same bytes are sent again where nothing is known, for the first may still arrive: whichever
        does, it is this write.
        """
        until, pause, lost = time.monotonic() + DEADLINE, FIRST_PAUSE, False
        while True:
            try:
                return send(self._writer())
            except FAULTS as error:
                if body.stopped is not None:
                    raise body.stopped from error
                kind = kind_of(error)
                if kind in (CONDITION, ABSENT):
                    # Perhaps by our own earlier try, whose reply was lost.
                    return self._version_of(key, body.nonce) if lost else None
                if kind != RETRY:
                    raise to_store_error(error, what) from error
                lost = True
                if (version := self._version_of(key, body.nonce)) is not None:
                    return version
                if time.monotonic() >= until:
                    raise to_store_error(error, what) from error
            pause = _wait(pause)

    def _version_of(self, key: str, nonce: bytes) -> str | None:
        """The version of the write with this nonce; None where the object is another's, or cannot be read."""
        name, end = self._name(key), f"bytes=-{TRAILER}"

        def look(s3: S3Client) -> tuple[bytes, str]:
            answer = s3.get_object(Bucket=self._bucket, Key=name, Range=end)
            return answer["Body"].read(), answer["ETag"]

        try:
            tail, version = self._read(f"look at {key}", look)
            return version if split_trailer(key, tail)[1] == nonce else None
        except (NotFound, StoreUnavailable, BlobCorrupt):
            return None

    def _written(self, key: str, length: int, version: str) -> BlobStat:
        """What a write of ours made. Another one may have replaced it by now, in about this moment."""
        found = self.stat(key)
        if found is not None and found.version == version:
            return found
        return _stat(key, length, version, found.modified if found is not None else self.now())

    def _read(self, what: str, call: Callable[[S3Client], Answer]) -> Answer:
        """A read, tried again where its body was cut or damaged: botocore does not do that."""
        until, pause = time.monotonic() + DEADLINE, FIRST_PAUSE
        for turn in range(READ_TRIES):
            try:
                return call(self._reader())
            except FAULTS as error:
                last = turn == READ_TRIES - 1 or time.monotonic() + LONGEST_READ > until
                if last or kind_of(error) != RETRY:
                    raise to_store_error(error, what) from error
            pause = _wait(pause)
        raise AssertionError("unreachable")

    def _name(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _writer(self) -> S3Client:
        return self._made()[0]

    def _reader(self) -> S3Client:
        return self._made()[1]

    def _made(self) -> tuple[S3Client, S3Client]:
        """(for writes, for reads), made once a process: connections do not survive a fork."""
        pid = os.getpid()
        if pid not in self._clients:
            self._clients = {pid: (_client(1), _client(READ_TRIES))}
        return self._clients[pid]


def _client(tries: int) -> S3Client:
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        retries={"total_max_attempts": tries, "mode": "standard"},
    )
    return boto3.session.Session().client("s3", config=config)


def prove(store: S3Store) -> None:
    """Proves on a scratch key that the server honours the conditions that everything rests on.

    Raises StoreDenied naming what failed: a server that ignores conditions looks fine until it loses a
    frame.
    """
    key = f"probes/{uuid.uuid4().hex}"
    first = store.put_new(key, b"one")
    try:
        _refused(AlreadyExists, lambda: store.put_new(key, b"two"), "a second create (If-None-Match)")
        second = store.swap(key, b"three", first.version)
        _refused(Conflict, lambda: store.swap(key, b"four", first.version), "a stale swap (If-Match)")
        _refused(Conflict, lambda: store.remove_if(key, first.version), "a conditional delete (If-Match)")
        if store.get(key)[0] != b"three" or store.stat(key) != second:
            raise StoreDenied("the S3 server does not give back what was written last")
    finally:
        store.delete(key)


def _refused(error: type[Exception], call: Callable[[], object], what: str) -> None:
    try:
        call()
    except error:
        return
    raise StoreDenied(
        f"the S3 server does not refuse {what}: frames could be lost on it; use a server that honours "
        "conditional requests"
    )


def _stat(key: str, length: int, etag: str, modified: datetime) -> BlobStat:
    return BlobStat(key, length - TRAILER, etag, modified.astimezone(UTC).replace(microsecond=0))


def _wait(pause: float) -> float:
    time.sleep(pause * random.uniform(0.5, 1.0))  # jitter: many clients must not come back together
    return min(2 * pause, LONGEST_PAUSE)
