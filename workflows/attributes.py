"""Search attributes: what the Web UI and `tessera list` filter frames by."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from contracts import FrameRequest, FrameStatus

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
