"""The bytes of an S3 object: the content and a trailer, on the way in and on the way out."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO

from store.base import Progress, silent
from store.errors import BlobCorrupt
from store.s3_faults import FAULTS, to_store_error

MARK = b"tessera-blob-v1\n"
TRAILER = len(MARK) + 16
PIECE = 1 << 20


class Body(io.RawIOBase):
    """A seekable stream of the content and its trailer; nothing is held in memory."""

    def __init__(self, content: BinaryIO, nonce: bytes, progress: Progress = silent) -> None:
        self.nonce = nonce
        self.stopped: Exception | None = None
        """What progress raised: the HTTP library wraps it up, and it would look like a fault of the wire."""
        self._progress, self._told = progress, 0
        self._content = content
        self._tail = MARK + nonce
        self._size = content.seek(0, os.SEEK_END)
        self._at = 0
        content.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def __len__(self) -> int:
        return self._size + TRAILER

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self)}[whence]
        self._at = max(0, base + offset)
        self._content.seek(min(self._at, self._size))
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        self._tell()
        left = len(self) - self._at
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._content.read(min(wanted, max(0, self._size - self._at)))
        if len(data) < wanted and self._at + len(data) >= self._size:
            start = self._at + len(data) - self._size
            data += self._tail[start : start + wanted - len(data)]
        self._at += len(data)
        return data

    def _tell(self) -> None:
        """The HTTP library reads a few kilobytes at a time: that would be too often."""
        if abs(self._at - self._told) < PIECE:
            return
        self._told = self._at
        try:
            self._progress("sending")
        except Exception as error:
            self.stopped = error
            raise


class ContentStream(io.RawIOBase, BinaryIO):
    """The content of an object as it arrives. The trailer is read and checked at its end, so that a cut
    or a damaged body is an error and never a shorter content."""

    def __init__(self, key: str, body: Any, length: int) -> None:
        self._key = key
        self._body = body
        self._left = length - TRAILER
        if self._left < 0:
            raise BlobCorrupt(f"{key}: {length} bytes, no blob of Tessera")

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        try:
            data: bytes = self._body.read(wanted) if wanted else b""
            self._left -= len(data)
            if len(data) < wanted:
                raise OSError(f"the body ended {wanted - len(data)} bytes early")
            if self._left == 0 and self._body is not None:
                rest, self._body = self._body.read(), _Ended()
                if rest:
                    split_trailer(self._key, rest)
        except FAULTS as error:
            raise to_store_error(error, f"read {self._key}") from error
        return data

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()


class _Ended:
    """A body that has been read to its end."""

    def read(self, size: int = -1) -> bytes:
        return b""

    def close(self) -> None:
        return


def split_trailer(key: str, data: bytes) -> tuple[bytes, bytes]:
    """(content, nonce). Raises BlobCorrupt for an object that has no trailer of ours."""
    if len(data) < TRAILER or data[-TRAILER:-16] != MARK:
        raise BlobCorrupt(f"{key}: is cut off, or no blob of Tessera")
    return data[:-TRAILER], data[-16:]
