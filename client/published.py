"""What the store alone knows about a frame: it answers without Temporal, also long after Temporal forgot."""

from __future__ import annotations

import re

from client.errors import BadInput, Unreachable
from contracts import (
    AttemptCounts,
    ErrorCode,
    FrameRequest,
    FrameResult,
    FrameStatus,
    JobStatus,
    Manifest,
    SampleCounts,
    TileCounts,
)
from store import NotFound, Store, layout
from workflows import policies


def published(store: Store, job_id: str, key: str | None = None) -> Manifest | None:
    """The job's manifest, if it is published. Raises BadInput where its full key is not `key`, Unreachable
    where the manifest is damaged, StoreError."""
    place = layout.manifest(job_id)
    try:
        data, _ = store.get(place)
        manifest = Manifest.decode(data)
    except NotFound:
        return None
    except ValueError as error:
        raise damaged(place, error) from error
    if key is not None and manifest.frame.idempotency_key != key:
        raise conflict(job_id)
    return manifest


def is_job_name(job_id: str) -> bool:
    """Whether a job can have this name at all."""
    try:
        layout.job(job_id)
    except ValueError:
        return False
    return True


def conflict(job_id: str) -> BadInput:
    return BadInput(
        f"{job_id}: idempotency_conflict: another frame has this name; nothing of it is touched",
        ErrorCode.IDEMPOTENCY_CONFLICT,
    )


def damaged(key: str, error: ValueError) -> Unreachable:
    first = str(error).splitlines()[0]
    return Unreachable(f"{key}: damaged in the store: {first}", ErrorCode.STORAGE_UNAVAILABLE)


def recorded(store: Store, job_id: str) -> JobStatus | None:
    """The status of a job that Temporal does not know: published, or only once submitted; None: neither."""
    manifest = published(store, job_id)
    if manifest is not None:
        return status_of(manifest)
    request, stat = recorded_request(store, job_id), store.stat(layout.job(job_id))
    if request is None or stat is None:
        return None
    return JobStatus(
        job_id=job_id,
        idempotency_key=request.idempotency_key,
        status=FrameStatus.CANCELLED,
        frame=request.frame_number,
        created_at=stat.modified,
        updated_at=stat.modified,
        note="Temporal does not know this job (any more) and nothing is published: submit it again to go on",
    )


def recorded_request(store: Store, job_id: str) -> FrameRequest | None:
    """The request that the job's record keeps."""
    try:
        data, _ = store.get(layout.job(job_id))
        return FrameRequest.model_validate_json(data)
    except NotFound:
        return None
    except ValueError as error:
        raise damaged(layout.job(job_id), error) from error


def status_of(manifest: Manifest) -> JobStatus:
    """A published frame's status, with the counts of the run that published it."""
    frame, publication = manifest.frame, manifest.publication
    counts, image = publication.counts, frame.images[0]
    return JobStatus(
        job_id=frame.job_id,
        idempotency_key=frame.idempotency_key,
        status=FrameStatus.COMPLETED,
        frame=frame.request.frame_number,
        progress=1.0,
        tiles=TileCounts(total=len(frame.films), rendered=len(frame.films)),
        samples=SampleCounts(
            target=frame.width * frame.height * frame.request.samples_per_pixel,
            rendered=counts.samples_rendered,
            resumed=counts.samples_resumed,
        ),
        attempts=AttemptCounts(
            total=counts.attempts, lost=counts.attempts_lost, yielded=counts.attempts_yielded
        ),
        result=FrameResult(
            manifest=layout.manifest(frame.job_id),
            image=image.key,
            sha256=image.sha256,
            film_sha256=frame.film_sha256,
        ),
        input_hash=frame.sample_key,
        max_retries=policies.TILE_RETRY.maximum_attempts - 1,
        progress_pointer=layout.films(frame.sample_key),
        created_at=publication.created_at,
        updated_at=publication.created_at,
        engine=frame.engine,
    )


def stored_tiles(store: Store, sample_key: str, at_or_below: int) -> dict[str, int]:
    """Samples a pixel of each tile's newest film that a frame of `at_or_below` samples would go on from."""
    newest: dict[str, int] = {}
    for blob in store.list(layout.films(sample_key)):
        samples = layout.film_samples(blob.key)
        if samples is not None and samples <= at_or_below:
            newest[blob.key.split("/")[-2]] = samples  # keys come in the order of their samples
    return newest


_EDGES = re.compile(r"w(\d+)h(\d+)")


def tile_area(tile_id: str) -> int:
    """Pixels of a tile, from its name."""
    edges = _EDGES.search(tile_id)
    return int(edges[1]) * int(edges[2]) if edges else 0


def answered(status: JobStatus) -> JobStatus:
    """A published frame's status as the answer to a submit, which rendered nothing."""
    samples = SampleCounts(target=status.samples.target, rendered=0, resumed=status.samples.target)
    return status.model_copy(update={"samples": samples, "attempts": AttemptCounts()})
