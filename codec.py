"""Encryption of all that Temporal keeps for us: arguments, results, heartbeats, failures, summaries.

AES-256-GCM under one of several named keys. What is written takes the first key; what is read, the key that
it names: so keys are rotated by putting a new one in front, and removed when nothing is left that needs it.
Search attributes are never encrypted, since Temporal searches by them.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec

ENCODING = b"binary/encrypted"
"""As Temporal's own examples call it, so that tools know what they see."""
KEY_ID = "encryption-key-id"
KEY_BYTES = 32
VARIABLE = "TESSERA_ENCRYPTION_KEYS"
NONCE_BYTES = 12

Proto = TypeVar("Proto", bound=Message)


class KeyProblem(Exception):
    """The keys cannot be read, or one that is needed is not among them. Says which, and never shows one."""


def parse_keys(text: str) -> dict[str, bytes]:
    """ "id:base64,id:base64", the newest first. Raises KeyProblem."""
    keys: dict[str, bytes] = {}
    for number, part in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        name, colon, encoded = part.partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            key = b""
        if not (name and colon and name.isprintable() and len(key) == KEY_BYTES):
            raise KeyProblem(
                f"{VARIABLE}: key {number} has to be id:base64 of {KEY_BYTES} random bytes, as in "
                "`echo 2026-01:$(openssl rand -base64 32)`"
            )
        if name in keys:
            raise KeyProblem(f"{VARIABLE}: key {number} has the id {name}, which another has already")
        keys[name] = key
    return keys


class EncryptionCodec(PayloadCodec):
    """Without keys it writes as it is, and says which key is missing where something is encrypted."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """keys: by id, the one to write with first."""
        self._keys = dict(keys)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._encrypt(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._decrypt(payload) for payload in payloads]

    def _encrypt(self, payload: Payload) -> Payload:
        if not self._keys:
            return payload
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        name, key = next(iter(self._keys.items()))
        nonce = os.urandom(NONCE_BYTES)
        # The key's id is authenticated too: nobody can have a payload tried with another key.
        data = nonce + AESGCM(key).encrypt(nonce, payload.SerializeToString(), name.encode())
        return Payload(metadata={"encoding": ENCODING, KEY_ID: name.encode()}, data=data)

    def _decrypt(self, payload: Payload) -> Payload:
        """What is not encrypted passes: it was written before there were keys."""
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        name = payload.metadata.get(KEY_ID, b"").decode(errors="replace")
        key = self._keys.get(name)
        if key is None:
            have = ", ".join(self._keys) or "none"
            raise KeyProblem(
                f"encrypted with key {name!r}, and the keys here are: {have}; add it to {VARIABLE}"
            )
        nonce, data = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
        try:
            return Payload.FromString(AESGCM(key).decrypt(nonce, data, name.encode()))
        except InvalidTag:
            raise KeyProblem(
                f"the key {name!r} here is not the one it was encrypted with, or the data is damaged"
            ) from None


def data_converter(keys: Mapping[str, bytes]) -> DataConverter:
    """Pydantic models as JSON, encrypted where there are keys; then messages and stacks of failures, too."""
    converter = replace(pydantic_data_converter, payload_codec=EncryptionCodec(keys))
    if not keys:
        return converter
    return replace(converter, failure_converter_class=DefaultFailureConverterWithEncodedAttributes)


async def decoded(message: Proto, converter: DataConverter) -> Proto:
    """A copy of what Temporal answered with every payload and failure in it decoded: for what is read from
    its raw answers, which no converter has seen."""
    copy = type(message)()
    copy.CopyFrom(message)
    codec = converter.payload_codec
    if codec is not None:
        for part in list(_parts(copy)):
            if isinstance(part, Payload):
                part.CopyFrom((await codec.decode([part]))[0])
            elif part.HasField("encoded_attributes"):
                _spell_out(part)
    return copy


def _parts(message: Message) -> Iterable[Payload | Failure]:
    """Payloads and failures, wherever they are; inner ones before those that hold them."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            values = [item for item in value.values() if isinstance(item, Message)]
        else:
            values = list(value) if field.is_repeated else [value]
        for item in values:
            yield from _parts(item)
    if isinstance(message, Payload | Failure):
        yield message


def _spell_out(failure: Failure) -> None:
    """Message and stack of an encoded failure back to where they are without encoding."""
    attributes = pydantic_data_converter.payload_converter.from_payload(failure.encoded_attributes, dict)
    failure.message = attributes.get("message", failure.message)
    failure.stack_trace = attributes.get("stack_trace", failure.stack_trace)
    failure.ClearField("encoded_attributes")
