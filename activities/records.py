"""Records in the store beside the films: dead letters, and what a discarded frame leaves behind."""

from __future__ import annotations

from temporalio import activity

from activities.attempt import beat_step
from activities.errors import Refused, coded_errors
from contracts import DeadLetter, ErrorCode, FramePlan, FrameRequest, Manifest
from store import AlreadyExists, Store, layout
from store.blobs import put_record


class RecordActivities:
    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker

    @activity.defn(no_thread_cancel_exception=True)
    def record_dead_letter(self, letter: DeadLetter) -> None:
        """Writes the frame's dead letter, or replaces an older one."""
        key, data = layout.dead_letter(letter.job_id), letter.model_dump_json(indent=1).encode()
        with coded_errors(self._worker):
            try:
                self._store.put_new(key, data)
            except AlreadyExists:
                stat = self._store.stat(key)
                if stat is not None:
                    self._store.swap(key, data, stat.version)

    @activity.defn(no_thread_cancel_exception=True)
    def record_job(self, request: FrameRequest) -> None:
        """Writes what a job is asked to be, as a submit does: by it the store alone knows the frame."""
        key, data = layout.job(request.job_id), request.model_dump_json(indent=1).encode()
        with coded_errors(self._worker):
            earlier = FrameRequest.model_validate_json(put_record(self._store, key, data))
            if earlier.idempotency_key != request.idempotency_key:
                raise Refused(ErrorCode.IDEMPOTENCY_CONFLICT, f"{key}: another frame has this name")

    @activity.defn(no_thread_cancel_exception=True)
    def remove_dead_letter(self, letter: DeadLetter) -> None:
        with coded_errors(self._worker):
            self._store.delete(layout.dead_letter(letter.job_id))

    @activity.defn(no_thread_cancel_exception=True)
    def discard_frame(self, plan: FramePlan) -> None:
        """Removes the films of the frame's sample sequence but for what published frames are made of. The
        plan stays: frames of fewer or more samples share it, and may be running."""
        with coded_errors(self._worker):
            keep = self._published_samples(plan.sample_key)
            for blob in self._store.list(layout.films(plan.sample_key)):
                beat_step("discarding")
                if layout.film_samples(blob.key) not in keep:
                    self._store.delete(blob.key)

    def _published_samples(self, sample_key: str) -> set[int]:
        """The sample counts that published frames of this sample sequence have."""
        counts = set()
        for blob in self._store.list(layout.manifests()):
            beat_step("looking at manifests")
            data, _ = self._store.get(blob.key)
            frame = Manifest.decode(data).frame
            if frame.sample_key == sample_key:
                counts.add(frame.request.samples_per_pixel)
        return counts
