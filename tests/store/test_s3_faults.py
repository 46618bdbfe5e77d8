"""S3 answers and failures of the network: what each means, and that no lost reply loses a write."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from store import (
    AlreadyExists,
    Conflict,
    NotFound,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
    open_store,
    s3,
)
from store.s3 import S3Store
from store.s3_faults import ABSENT, CODES, CONDITION, DENIED, FULL, RETRY, kind_of, to_store_error
from tests.store.fault_proxy import CUT, FLIP, RESET_AFTER, RESET_BEFORE, STALL, Proxy, running_proxy
from tests.store.s3_server import BUCKET, S3Server, environment

CLASSES = {RETRY: StoreUnavailable, FULL: StoreFull, DENIED: StoreDenied, ABSENT: NotFound}


def answer(code: str, status: int) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "PutObject",
    )


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_its_class(code: str) -> None:
    error = answer(code, int(code) if code.isdigit() else 400)
    assert kind_of(error) == CODES[code]
    if CODES[code] != CONDITION:
        assert type(to_store_error(error, "try k")) is CLASSES[CODES[code]]


@pytest.mark.parametrize(("status", "kind"), [(599, RETRY), (418, DENIED)])
def test_unknown_codes_go_by_their_status(status: int, kind: str) -> None:
    assert kind_of(answer("Whatever", status)) == kind


@pytest.mark.parametrize(
    "error",
    [EndpointConnectionError(endpoint_url="e"), ReadTimeoutError(endpoint_url="e"), ConnectionResetError()],
)
def test_failures_of_the_network_may_pass(error: Exception) -> None:
    assert kind_of(error) == RETRY


@pytest.fixture
def proxy(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(s3, "READ_TIMEOUT", 1)
    monkeypatch.setattr(s3, "FIRST_PAUSE", 0.01)
    with running_proxy(s3_server.endpoint) as proxy:
        for name, value in environment(proxy.endpoint).items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture
def store(proxy: Proxy) -> S3Store:
    return S3Store(BUCKET, uuid.uuid4().hex)


AMBIGUOUS = [RESET_BEFORE, RESET_AFTER, STALL, 500, 503, 409]


@pytest.mark.parametrize("fault", AMBIGUOUS)
def test_a_create_whose_reply_is_lost_happens_once_and_is_ours(
    store: S3Store, proxy: Proxy, fault: str | int
) -> None:
    proxy.methods = {"PUT"}
    proxy.faults.append(fault)
    made = store.put_new("k", b"mine")
    assert store.get("k") == (b"mine", made)
    with pytest.raises(AlreadyExists):
        store.put_new("k", b"mine")


@pytest.mark.parametrize("fault", AMBIGUOUS)
def test_a_swap_whose_reply_is_lost_happens_once_and_is_ours(
    store: S3Store, proxy: Proxy, fault: str | int
) -> None:
    first = store.put_new("k", b"one")
    proxy.methods = {"PUT"}
    proxy.faults.append(fault)
    second = store.swap("k", b"two", first.version)
    assert store.get("k") == (b"two", second)
    with pytest.raises(Conflict):
        store.swap("k", b"three", first.version)


@pytest.mark.parametrize("fault", AMBIGUOUS)
def test_a_delete_whose_reply_is_lost_is_done(store: S3Store, proxy: Proxy, fault: str | int) -> None:
    made = store.put_new("k", b"one")
    proxy.methods = {"DELETE"}
    proxy.faults.append(fault)
    store.delete("k", made.version)
    assert store.stat("k") is None


def test_another_creator_is_not_taken_for_us_after_a_lost_reply(store: S3Store, proxy: Proxy) -> None:
    store.put_new("k", b"same")
    proxy.methods = {"PUT"}
    proxy.faults.append(RESET_BEFORE)
    with pytest.raises(AlreadyExists):
        store.put_new("k", b"same")


@pytest.mark.parametrize("fault", [RESET_BEFORE, RESET_AFTER, CUT, FLIP, 500, 503])
def test_a_read_that_fails_once_is_read_again(store: S3Store, proxy: Proxy, fault: str | int) -> None:
    content = bytes(range(256)) * 40
    store.put_new("k", content)
    proxy.methods = {"GET"}
    proxy.faults.append(fault)
    assert store.get("k")[0] == content


@pytest.mark.parametrize("fault", [CUT, FLIP])
def test_damage_that_stays_is_an_error_and_never_content(store: S3Store, proxy: Proxy, fault: str) -> None:
    store.put_new("k", bytes(range(256)) * 40)
    proxy.methods = {"GET"}
    proxy.faults.extend([fault] * 20)
    with pytest.raises(StoreUnavailable, match="k"):
        store.get("k")
    proxy.faults.clear()
    proxy.faults.extend([fault] * 20)
    with pytest.raises(StoreUnavailable, match="k"), store.open("k") as stream:
        while stream.read(1000):
            pass


def test_a_server_that_stays_away_is_unavailable_within_the_deadline(
    store: S3Store, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "DEADLINE", 0.5)
    proxy.faults.extend([503] * 1000)
    with pytest.raises(StoreUnavailable, match="create k"):
        store.put_new("k", b"")
    with pytest.raises(StoreUnavailable, match="read k"):
        store.get("k")


def test_a_server_that_accepts_and_never_answers_is_unavailable_within_the_deadline(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was stopped: every request takes all the time that it may."""
    now = [0.0]

    class Silent:
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

        def get_object(self, **_: object) -> None:
            now[0] += self.seconds
            raise ReadTimeoutError(endpoint_url="e")

        put_object = get_object

    monkeypatch.setattr(s3, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: None))
    monkeypatch.setattr(store, "_reader", lambda: Silent(s3.LONGEST_READ))
    monkeypatch.setattr(store, "_writer", lambda: Silent(s3.LONGEST_READ / s3.READ_TRIES))
    with pytest.raises(StoreUnavailable):
        store.get("films/a")
    assert now[0] <= s3.DEADLINE
    now[0] = 0.0
    with pytest.raises(StoreUnavailable):
        store.put_new("films/a", b"a")
    assert now[0] <= s3.DEADLINE


@pytest.mark.parametrize(("status", "error"), [(403, StoreDenied), (507, StoreFull), (501, StoreDenied)])
def test_refusals_are_told_at_once(store: S3Store, proxy: Proxy, status: int, error: type[Exception]) -> None:
    proxy.faults.append(status)
    with pytest.raises(error, match="create k"):
        store.put_new("k", b"")
    assert proxy.seen == ["PUT"]


def test_a_wrong_bucket_and_wrong_credentials_are_denied(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreDenied):
        open_store(f"s3://{BUCKET}/x")


@pytest.mark.parametrize("ignored", ["If-None-Match", "If-Match", "conditional delete"])
def test_a_server_that_ignores_conditions_is_refused_by_name(
    ignored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), careless(ignored))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        for name, value in environment(f"http://127.0.0.1:{server.server_port}").items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreDenied, match=ignored):
            open_store("s3://bucket/x")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def careless(ignored: str) -> type[BaseHTTPRequestHandler]:
    """A server that honours all conditions but one."""
    objects: dict[str, tuple[bytes, str]] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self, status: int, body: bytes = b"", etag: str | None = None) -> None:
            self.send_response(status)
            if etag:
                self.send_header("ETag", etag)
                self.send_header("Last-Modified", "Tue, 01 Dec 2026 08:00:00 GMT")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def refuses(self, header: str, name: str) -> bool:
            wanted, found = self.headers.get(header), objects.get(self.path.split("?")[0])
            if wanted is None or name == ignored:
                return False
            return found is not None if wanted == "*" else found is None or found[1] != wanted

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.refuses("If-None-Match", "If-None-Match") or self.refuses("If-Match", "If-Match"):
                return self.reply(412)
            objects[self.path.split("?")[0]] = (body, f'"{uuid.uuid4().hex}"')
            self.reply(200, etag=objects[self.path.split("?")[0]][1])

        def do_GET(self) -> None:
            found = objects.get(self.path.split("?")[0])
            return self.reply(404) if found is None else self.reply(200, found[0], found[1])

        do_HEAD = do_GET

        def do_DELETE(self) -> None:
            if self.refuses("If-Match", "conditional delete"):
                return self.reply(412)
            objects.pop(self.path.split("?")[0], None)
            self.reply(204)

        def log_message(self, format: str, *arguments: object) -> None:
            return

    return Handler
