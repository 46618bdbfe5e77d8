"""Encryption of what Temporal keeps: what is written, what can be read, and with which keys."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import History, HistoryEvent
from temporalio.exceptions import ApplicationError

from client.codec_server import make_server
from codec import ENCODING, EncryptionCodec, KeyProblem, data_converter, decoded, parse_keys

OLD, NEW = {"2025": b"o" * 32}, {"2026": b"n" * 32}


def encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


def encrypt(keys: dict[str, bytes], payload: Payload) -> Payload:
    return asyncio.run(EncryptionCodec(keys).encode([payload]))[0]


def decrypt(keys: dict[str, bytes], payload: Payload) -> Payload:
    return asyncio.run(EncryptionCodec(keys).decode([payload]))[0]


@given(st.binary(max_size=300), st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3))
def test_what_is_encrypted_comes_back_and_shows_nothing(data: bytes, metadata: dict[str, bytes]) -> None:
    plain = Payload(metadata=metadata, data=data)
    hidden = encrypt(NEW, plain)
    assert hidden.metadata["encoding"] == ENCODING
    assert len(data) < 8 or data not in hidden.data
    assert decrypt(NEW, hidden) == plain
    assert encrypt(NEW, plain) != hidden  # equal contents do not show as such


def test_keys_are_rotated_by_a_new_one_in_front() -> None:
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b"1")
    before, after = encrypt(OLD, plain), encrypt(NEW | OLD, plain)
    assert after.metadata["encryption-key-id"] == b"2026"
    assert decrypt(NEW | OLD, before) == decrypt(NEW | OLD, after) == plain
    with pytest.raises(KeyProblem, match="encrypted with key '2025', and the keys here are: 2026"):
        decrypt(NEW, before)


def test_what_was_written_before_there_were_keys_is_read() -> None:
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b"1")
    assert decrypt(NEW, plain) == plain == encrypt({}, plain)


def test_another_key_of_the_same_name_and_damage_are_noticed() -> None:
    hidden = encrypt(NEW, Payload(data=b"1"))
    with pytest.raises(KeyProblem, match="'2026' here is not the one"):
        decrypt({"2026": b"x" * 32}, hidden)
    hidden.data = hidden.data[:-1] + bytes([hidden.data[-1] ^ 1])
    with pytest.raises(KeyProblem, match="or the data is damaged"):
        decrypt(NEW, hidden)


def test_keys_are_read_in_their_order_and_refused_without_being_shown() -> None:
    text = f"2026:{encoded(NEW['2026'])}, 2025:{encoded(OLD['2025'])}"
    assert list(parse_keys(text).items()) == [*NEW.items(), *OLD.items()]
    assert parse_keys("") == {}
    secret = encoded(b"short")
    for bad in (f"2026:{secret}", secret, f"{text},2025:{encoded(b'z' * 32)}", "2026:no-base64"):
        with pytest.raises(KeyProblem, match=r"TESSERA_ENCRYPTION_KEYS: key \d has") as caught:
            parse_keys(bad)
        assert secret not in str(caught.value)


def test_raw_answers_are_decoded_wherever_something_is_encrypted() -> None:
    converter = data_converter(NEW)

    async def make() -> HistoryEvent:
        failure = Failure()
        await converter.encode_failure(ApplicationError("the secret message", {"worker": "w"}), failure)
        event = HistoryEvent()
        event.activity_task_started_event_attributes.last_failure.CopyFrom(failure)
        fields = event.workflow_execution_started_event_attributes.memo.fields
        fields["note"].CopyFrom((await converter.encode(["a note"]))[0])
        return event

    event = asyncio.run(make())
    assert b"secret" not in event.SerializeToString()
    plain = asyncio.run(decoded(History(events=[event]), converter)).events[0]
    memo = plain.workflow_execution_started_event_attributes.memo.fields["note"]
    assert json.loads(memo.data) == "a note"


def test_a_failure_is_spelled_out() -> None:
    converter, failure = data_converter(NEW), Failure()
    error = ApplicationError("the secret message", {"worker": "w"}, type="internal")
    asyncio.run(converter.encode_failure(error, failure))
    assert b"secret" not in failure.SerializeToString()
    plain = asyncio.run(decoded(failure, converter))
    info = plain.application_failure_info
    assert (plain.message, info.type) == ("the secret message", "internal")
    assert json.loads(info.details.payloads[0].data) == {"worker": "w"}


@contextmanager
def codec_server() -> Iterator[str]:
    server = make_server("127.0.0.1", 0, EncryptionCodec(NEW), "http://ui.example")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_web_ui_is_answered() -> None:
    hidden = encrypt(NEW, Payload(metadata={"encoding": b"json/plain"}, data=b'"a scene"'))
    question = json_format.MessageToJson(Payloads(payloads=[hidden])).encode()
    with codec_server() as url:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/decode", question)) as answer:
            assert answer.headers["Access-Control-Allow-Origin"] == "http://ui.example"
            found = json_format.Parse(answer.read(), Payloads())
        assert found.payloads[0].data == b'"a scene"'
        other = encrypt(OLD, Payload(data=b"1"))
        asked = json_format.MessageToJson(Payloads(payloads=[other])).encode()
        for path, body, status in (("/decode", asked, 400), ("/decode", b"{", 400), ("/keys", b"{}", 404)):
            with pytest.raises(HTTPError) as caught:
                urllib.request.urlopen(urllib.request.Request(url + path, body))
            assert caught.value.code == status
