"""What tests of sequences share: a request for one, and a farm that says what it was asked to render."""

from __future__ import annotations

import asyncio

from temporalio.exceptions import ApplicationError

from contracts import ErrorCode, FinalizeOutcome, FinalizeTask, FramePlan, FrameRequest, SequenceRequest
from tests.workflows.farm import Farm, request


def sequence(project: str, *frames: tuple[int, int, int], every: int | None = None) -> SequenceRequest:
    template = request().model_copy(update={"project_id": project})
    return SequenceRequest(template=template, frames=frames, every=every)


class Rendered:
    """Which frames the farm has rendered, in order, and how many of them at once."""

    def __init__(self, farm: Farm) -> None:
        self.numbers: list[int] = []
        self.at_once = self.most = 0
        self.bad: dict[int, ErrorCode] = {}
        """Frames that fail while they are prepared."""
        self._gates: dict[int, asyncio.Event] = {}
        farm.prepare = self._prepare
        self._farm = farm

    def hold(self, *numbers: int) -> None:
        """These frames are not prepared until they are let go."""
        self._gates.update({number: asyncio.Event() for number in numbers})

    def let_go(self) -> None:
        for gate in self._gates.values():
            gate.set()

    async def _prepare(self, asked: FrameRequest) -> FramePlan:
        number = asked.frame_number
        self.numbers.append(number)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if number in self._gates:
                await self._gates[number].wait()
            await asyncio.sleep(0)
            if number in self.bad:
                raise ApplicationError(f"frame {number} is bad", type=self.bad[number])
            return await self._farm.planned(asked)
        finally:
            self.at_once -= 1


def poison(farm: Farm, *numbers: int) -> None:
    """The films of these frames vanish again and again, so that they park, until finalize is mended."""

    async def finalize(task: FinalizeTask) -> FinalizeOutcome:
        if task.request.frame_number in numbers:
            return FinalizeOutcome(missing=(0,))
        return await farm.published(task)

    farm.finalize = finalize
