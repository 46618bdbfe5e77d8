"""Search attributes: what the Web UI and `tessera list` filter frames and sequences by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from contracts import FrameRequest, FrameStatus, SequenceRequest, SequenceStatus

if TYPE_CHECKING:
    from temporalio.client import Client

STATUS = SearchAttributeKey.for_keyword("RenderStatus")
PROJECT = SearchAttributeKey.for_keyword("RenderProject")
SCENE = SearchAttributeKey.for_keyword("RenderScene")
FRAME = SearchAttributeKey.for_int("RenderFrame")
PROGRESS = SearchAttributeKey.for_float("RenderProgress")
ERROR_CODE = SearchAttributeKey.for_keyword("RenderErrorCode")
ENGINE = SearchAttributeKey.for_keyword("RenderEngine")
"""The engine that a prepared frame is rendered by: which frames an old engine still has to finish."""
IDEMPOTENCY_KEY = SearchAttributeKey.for_keyword("IdempotencyKey")

ALL = (STATUS, PROJECT, SCENE, FRAME, PROGRESS, ERROR_CODE, ENGINE, IDEMPOTENCY_KEY)


def of_request(request: FrameRequest) -> TypedSearchAttributes:
    """The attributes a frame starts with."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(STATUS, FrameStatus.QUEUED),
            SearchAttributePair(PROJECT, request.project_id),
            SearchAttributePair(SCENE, request.scene.entry),
            SearchAttributePair(FRAME, request.frame_number),
            SearchAttributePair(PROGRESS, 0.0),
            SearchAttributePair(IDEMPOTENCY_KEY, request.idempotency_key),
        ]
    )


def of_sequence(request: SequenceRequest) -> TypedSearchAttributes:
    """The attributes a sequence starts with: a frame's, but that it has no one frame number."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(STATUS, SequenceStatus.RUNNING),
            SearchAttributePair(PROJECT, request.template.project_id),
            SearchAttributePair(SCENE, request.template.scene.entry),
            SearchAttributePair(PROGRESS, 0.0),
            SearchAttributePair(IDEMPOTENCY_KEY, request.idempotency_key),
        ]
    )


async def register(client: Client) -> None:
    """Adds the attributes that this namespace does not have; without them no frame could start."""
    from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest

    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    missing = {
        key.name: int(key.indexed_value_type) for key in ALL if key.name not in listed.custom_attributes
    }
    if missing:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)  # type: ignore[arg-type]
        )
