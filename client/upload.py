"""Uploading: the bundle's files become blobs, so that a later edit on disk cannot reach a running frame."""

from __future__ import annotations

from collections.abc import Iterable

from client.errors import BadInput
from client.published import conflict, damaged
from client.request import LocalBundle
from contracts import ErrorCode, FrameRequest
from store import BlobCorrupt, Store, layout
from store.blobs import put_blob, put_record


def upload(store: Store, local: LocalBundle, requests: Iterable[FrameRequest]) -> None:
    """Puts the bundle and the jobs' records into the store; what is there is not sent again.

    Raises BadInput where a file changed since it was hashed or a job of this name is another frame, and
    StoreError.
    """
    for file in local.bundle.files:
        path = local.paths[file.path]
        try:
            sha256 = put_blob(store, path)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}", ErrorCode.ASSET_MISSING) from error
        except BlobCorrupt as error:
            raise BadInput(str(error), ErrorCode.STORAGE_UNAVAILABLE) from error
        if sha256 != file.sha256:
            raise BadInput(f"{path}: changed while it was being submitted; submit again")
    put_record(store, layout.bundle(local.bundle.version), local.bundle.model_dump_json(indent=1).encode())
    for request in requests:
        record(store, request)


def record(store: Store, request: FrameRequest) -> None:
    """Puts a job's record into the store. Raises BadInput where a job of this name is another frame."""
    key = layout.job(request.job_id)
    data = put_record(store, key, request.model_dump_json(indent=1).encode())
    try:
        earlier = FrameRequest.model_validate_json(data)
    except ValueError as error:
        raise damaged(key, error) from error
    if earlier.idempotency_key != request.idempotency_key:
        raise conflict(request.job_id)
