"""What a frame's workflow starts with, the same whether a person or another workflow starts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.common import Priority, TypedSearchAttributes

from workflows import attributes, policies

with workflow.unsafe.imports_passed_through():
    from contracts import FrameRequest, SequenceRequest

KEY_MEMO = "idempotency_key"
PICTURE_MEMO = "picture"
"""What `tessera list` tells frames of one scene apart by: size and samples."""
FRAMES_MEMO = "frames"
"""How many frames a sequence has."""


@dataclass(frozen=True)
class Launch:
    memo: dict[str, Any]
    search_attributes: TypedSearchAttributes
    static_summary: str
    static_details: str
    priority: Priority


def frame_launch(request: FrameRequest) -> Launch:
    return Launch(
        memo={KEY_MEMO: request.idempotency_key, PICTURE_MEMO: _picture(request)},
        search_attributes=attributes.of_request(request),
        static_summary=f"{_scene(request)} frame {request.frame_number}, {_samples(request)}",
        static_details=_details(request),
        priority=policies.priority(request),
    )


def sequence_launch(request: SequenceRequest) -> Launch:
    template, numbers = request.template, request.numbers
    first = f"each {request.every}th of them first, " if request.every else ""
    return Launch(
        memo={
            KEY_MEMO: request.idempotency_key,
            PICTURE_MEMO: _picture(template),
            FRAMES_MEMO: len(numbers),
        },
        search_attributes=attributes.of_sequence(request),
        static_summary=f"{_scene(template)} {len(numbers)} frames, {first}{_samples(template)}",
        static_details=f"frames {min(numbers)} to {max(numbers)}, {_details(template)}",
        priority=policies.priority(template),
    )


def _picture(request: FrameRequest) -> dict[str, Any]:
    return {"size": _size(request), "spp": request.samples_per_pixel}


def _scene(request: FrameRequest) -> str:
    return request.scene.entry[-80:]  # the server refuses a summary of more than 400 bytes


def _samples(request: FrameRequest) -> str:
    return f"{request.samples_per_pixel} samples"


def _size(request: FrameRequest) -> str | None:
    settings = request.settings
    return f"{settings.width}x{settings.height}" if settings.width else None


def _details(request: FrameRequest) -> str:
    size = _size(request) or "default size"
    return f"project {request.project_id}, {size}, depth {request.settings.max_depth}"
