"""What people and programs ask of a running frame: one query, signals, and updates.

A signal reaches the frame even while no worker is there, and is harmless where it makes no sense. An
update of the same name is answered with the frame's status, or refused with the reason. Asking twice
is asking once.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from workflows.state import FrameState, Phase
from workflows.window import TileWindow

with workflow.unsafe.imports_passed_through():
    from contracts import MAX_SAMPLES, FrameStatus, JobStatus

HIGHEST_PRIORITY = 100
REFUSED = "refused"
"""The error type of an update that makes no sense."""

Tiles = list[str] | None


class Steering:
    """The part of FrameWorkflow that answers. It changes what the workflow knows; the workflow's loop sees it
    and acts."""

    _state: FrameState
    _window: TileWindow | None
    _retry_asked: frozenset[str] | None

    def _enter(self, phase: Phase) -> None:
        """Announces the state: see FrameWorkflow."""
        raise NotImplementedError

    async def _start_refined(self, samples: int) -> str:
        raise NotImplementedError

    @workflow.query(description="The frame's state, counts, last failure and result")
    def status(self) -> JobStatus:
        running = self._window.running if self._window is not None else 0
        return self._state.job_status(workflow.info().workflow_id, running)

    # --- signals --------------------------------------------------------------------------------

    @workflow.signal(description="Stop rendering; films are kept")
    def pause(self) -> None:
        self._state.paused = True
        if self._window is not None:
            self._window.interrupt()
        self._enter(self._state.phase)

    @workflow.signal(description="Go on after a pause")
    def resume(self) -> None:
        self._state.paused = False
        self._enter(self._state.phase)

    @workflow.signal(description="Try a parked frame again; with tile ids, only those tiles")
    def retry(self, tiles: Tiles = None) -> None:
        before, asked = self._retry_asked, frozenset(tiles or ())
        takes_all = not asked or before == frozenset()
        self._retry_asked = frozenset() if takes_all else asked | (before or frozenset())

    @workflow.signal(description="When cancelled, also remove the films made so far")
    def discard_on_cancel(self) -> None:
        self._state.discard = True

    @workflow.signal(description="0 to 100, higher first; for the tiles that are not in the queue yet")
    def set_priority(self, priority: int) -> None:
        if _is_priority(priority):
            self._state.request = self._state.request.model_copy(update={"priority": priority})

    # --- updates --------------------------------------------------------------------------------

    @workflow.update(
        name="pause", description="Stop rendering; films are kept. Refused where nothing renders"
    )
    def pause_now(self) -> JobStatus:
        self.pause()
        return self.status()

    @pause_now.validator
    def _may_pause(self) -> None:
        self._refuse_in(FrameStatus.FINALIZING, "nothing renders any more")
        self._refuse_in(FrameStatus.DEAD_LETTERED, "nothing renders; retry or cancel it")

    @workflow.update(name="resume", description="Go on after a pause")
    def resume_now(self) -> JobStatus:
        self.resume()
        return self.status()

    @resume_now.validator
    def _may_resume(self) -> None:
        self._refuse_in(FrameStatus.DEAD_LETTERED, "it is not paused; retry or cancel it")

    @workflow.update(
        name="retry",
        description="Try a parked frame again; with tile ids, only those. Refused where it is not parked",
    )
    def retry_now(self, tiles: Tiles = None) -> JobStatus:
        self.retry(tiles)
        return self.status()

    @retry_now.validator
    def _may_retry(self, tiles: Tiles = None) -> None:
        status = self._state.status
        if status is not FrameStatus.DEAD_LETTERED:
            raise _refused(f"the frame is {status}: only a dead-lettered one waits for a retry")
        if unknown := sorted(set(tiles or ()) - set(self.status().dead_tiles)):
            raise _refused(f"{unknown[0]} is no dead tile of this frame")

    @workflow.update(
        name="set_priority",
        description="0 to 100, higher first; for the tiles that are not in the queue yet",
    )
    def set_priority_now(self, priority: int) -> JobStatus:
        self.set_priority(priority)
        return self.status()

    @set_priority_now.validator
    def _may_set_priority(self, priority: int) -> None:
        self._refuse_in(FrameStatus.FINALIZING, "no tile is to come")
        if not _is_priority(priority):
            raise _refused(f"{priority!r} is no priority: a whole number from 0 to {HIGHEST_PRIORITY}")

    @workflow.update(
        description="Start the same frame with more samples a pixel; what this one has rendered is reused. "
        "Answers the new frame's workflow id"
    )
    async def more_samples(self, samples: int) -> str:
        return await self._start_refined(samples)

    @more_samples.validator
    def _may_refine(self, samples: int) -> None:
        self._refuse_in(FrameStatus.CANCELLED, "submit it again with the samples that you want")
        present = self._state.request.samples_per_pixel
        if not isinstance(samples, int) or not present < samples <= MAX_SAMPLES:
            raise _refused(
                f"{samples!r}: it has to be more than the frame's {present}, at most {MAX_SAMPLES}"
            )

    def _refuse_in(self, status: FrameStatus, why: str) -> None:
        if self._state.status is status:
            raise _refused(f"the frame is {status}: {why}")


def _is_priority(priority: object) -> bool:
    return isinstance(priority, int) and 0 <= priority <= HIGHEST_PRIORITY


def _refused(why: str) -> ApplicationError:
    return ApplicationError(why, type=REFUSED, non_retryable=True)
