"""Sequences from the command line, against a real Temporal server with scripted activities."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from imageio_ffmpeg import count_frames_and_secs, get_ffmpeg_exe
from PIL import Image
from temporalio.exceptions import ApplicationError

from client.contact_sheet import LABEL, MARGIN, MISSING
from contracts import ErrorCode, FramePlan, FrameRequest
from tests.client.desk import Desk
from tests.client.published_frame import HEIGHT, WIDTH

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """Its workers look for published frames where its client does."""
    desk.farm.store = desk.store
    return desk


class Bad:
    """Frames that fail while they are prepared, until they are mended."""

    def __init__(self, desk: Desk, *numbers: int) -> None:
        self.numbers = set(numbers)
        self._farm = desk.farm
        desk.farm.prepare = self._prepare

    async def _prepare(self, asked: FrameRequest) -> FramePlan:
        if asked.frame_number in self.numbers:
            raise ApplicationError("bad frame", type=ErrorCode.SCENE_INVALID)
        return await self._farm.planned(asked)


async def test_render_writes_every_frame_and_the_second_time_asks_only_the_store(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("render", str(desk.scene), "--frames", "1-5x2,3", "-o", "a.####.exr", "-o", "b.{frame:02d}.png")
    async with desk.farm.running(desk.client):
        done = await desk.run(*words)
    assert (done.code, done.content["status"], done.content["frames"]["published"]) == (0, "completed", 3)
    outputs = {job["frame"]: job["outputs"] for job in done.content["jobs"]}
    assert outputs == {n: [f"a.{n:04d}.exr", f"b.{n:02d}.png"] for n in (1, 3, 5)}
    assert all((desk.folder / name).exists() for names in outputs.values() for name in names)

    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    # What is looked at is not Temporal's: all frames are published, and so nothing is started.
    fetched = await desk.run("contact-sheet", done.content["job_id"], "-o", "sheet.png")
    assert fetched.code == 0 and fetched.content["frames"] == [1, 3, 5]


async def test_submitting_twice_attaches_and_jobs_are_found_by_the_sequences_id(desk: Desk) -> None:
    words = ("--frames", "1-4")
    jobs = [await desk.submit(*words), await desk.submit(*words, "--priority", "90")]
    assert len(set(jobs)) == 1 and jobs[0].startswith("sequence-")
    assert "no control worker" in (await desk.run("status", jobs[0])).content["note"]
    await desk.run("pause", jobs[0])
    async with desk.farm.running(desk.client):
        assert (await desk.until_status(jobs[0], "paused"))["frames"]["waiting"] == 4
        listed = (await desk.run("list", "--project", desk.folder.name)).content
        assert [(row["job_id"], row["frames"]) for row in listed["sequences"]] == [(jobs[0], 4)]
        assert (await desk.run("resume", jobs[0])).code == 0
        assert (await desk.run("watch", jobs[0])).content["status"] == "completed"
    runs = [run async for run in desk.client.list_workflows(f"WorkflowId = '{jobs[0]}'")]
    assert len({run.run_id for run in runs}) == 1
    _, text, _ = await desk.say("status", "--frames", jobs[0])
    assert len([line for line in text.splitlines() if "completed" in line and "  frame-" in line]) == 4
    code, text, _ = await desk.say("list", "--project", desk.folder.name)
    assert code == 0 and "all 4" in text.splitlines()[1]


async def test_a_bad_frame_is_named_and_a_retry_of_the_ended_sequence_renders_it(desk: Desk) -> None:
    bad = Bad(desk, 2)
    async with desk.farm.running(desk.client):
        done = await desk.run("render", str(desk.scene), "--frames", "1-3", "-o", "a.####.png")
        assert (done.code, done.content["status"]) == (1, "failed_terminal")
        assert done.content["failures"]["2"]["code"] == "scene_invalid"
        assert (desk.folder / "a.0003.png").exists() and not (desk.folder / "a.0002.png").exists()
        job = done.content["job_id"]
        refused = await desk.run("cancel", job)
        assert refused.code == 2 and "tessera retry" in refused.content["error"]["message"]
        bad.numbers.clear()
        assert (await desk.run("retry", job)).code == 0
        assert (await desk.run("watch", job)).code == 0
        assert (await desk.run("retry", job)).code == 2  # nothing is left to try
    assert desk.farm.attempts["prepare"] == 4


async def test_each_nth_frame_first_then_what_is_shown_is_approved(desk: Desk) -> None:
    async with desk.farm.running(desk.client):
        job = await desk.submit("--frames", "1-6", "--every", "3")
        report = await desk.until_status(job, "awaiting_approval")
        assert [part["frame"] for part in report["jobs"] if part["status"] == "completed"] == [1, 4]
        _, text, _ = await desk.say("status", job)
        assert "tessera approve" in text and "tessera contact-sheet" in text
        sheet = await desk.run("contact-sheet", job, "-o", "sheet.png")
        assert sheet.content["frames"] == [1, 4]
        assert (await desk.run("video", job, "-o", "film.mp4")).code == 2
        assert (await desk.run("approve", job)).code == 0
        assert (await desk.run("watch", job)).content["frames"]["published"] == 6


async def test_cancel_and_a_retry_that_starts_it_again(desk: Desk) -> None:
    render, desk.farm.render = desk.farm.render, desk.farm.until_stopped
    async with desk.farm.running(desk.client):
        job = await desk.submit("--frames", "1-2")
        await desk.until(job, lambda report: report["frames"]["running"] == 2)
        ended = await desk.run("cancel", job, "--discard")
        assert (ended.code, ended.content["status"]) == (0, "cancelled")
        assert desk.farm.discarded and (await desk.run("watch", job)).code == 4
        desk.farm.render = render
        assert (await desk.run("retry", job)).code == 0
        assert (await desk.run("watch", job)).content["status"] == "completed"


async def test_what_makes_no_sense_is_refused_with_a_reason(desk: Desk) -> None:
    frame, job = await desk.submit(), await desk.submit("--frames", "1-2")
    submit = ("submit", str(desk.scene))
    refusals: tuple[tuple[tuple[str, ...], str], ...] = (
        ((*submit, "--frames", "9-1"), "for example 1-240"),
        ((*submit, "--frames", "1-4", "--every", "1"), "--every"),
        ((*submit, "--every", "2"), "only one frame"),
        (("render", str(desk.scene), "--frames", "1-2", "-o", "a.png"), "'shot.####.exr'"),
        (("approve", frame), "only a sequence"),
        (("status", frame, "--frames"), "--tiles"),
        (("status", job, "--tiles"), "--frames"),
        (("preview", job, "-o", "a.png"), "tessera status --frames"),
        (("verify", job), "tessera status --frames"),
        (("contact-sheet", frame, "-o", "a.png"), "a single frame"),
        (("contact-sheet", job, "-o", "a.exr"), ".png"),
        (("video", job, "-o", "a.gif"), ".mp4"),
        (("pause", job[:-1] + "0"), "no such job"),
    )
    for words, why in refusals:
        refused = await desk.run(*words)
        assert refused.code == 2 and why in refused.content["error"]["message"], words


async def published(desk: Desk, frames: str, *bad: int) -> str:
    """The id of a sequence whose frames are all published, but the bad ones."""
    Bad(desk, *bad)
    async with desk.farm.running(desk.client):
        job = await desk.submit("--frames", frames)
        await desk.run("watch", job)
    return job


async def test_a_contact_sheet_has_every_frame_in_its_place(desk: Desk) -> None:
    job = await published(desk, "1-4", 2)
    assert (await desk.run("contact-sheet", job, "-o", "sheet.png")).code == 0
    assert (await desk.run("fetch", job, "-o", "f.####.png")).code == 0
    with Image.open(desk.folder / "sheet.png") as sheet:
        across, down = WIDTH + MARGIN, HEIGHT + LABEL + MARGIN
        columns = (sheet.width - MARGIN) // across
        assert columns * ((sheet.height - MARGIN) // down) >= 4
        for place, number in enumerate((1, 2, 3, 4)):
            row, column = divmod(place, columns)
            x, y = MARGIN + column * across, MARGIN + row * down
            cell = sheet.crop((x, y, x + WIDTH, y + HEIGHT))
            if number == 2:
                assert cell.getcolors() == [(WIDTH * HEIGHT, MISSING)]
            else:
                with Image.open(desk.folder / f"f.{number:04d}.png") as frame:
                    assert cell.tobytes() == frame.convert("RGB").tobytes()


async def test_a_video_has_every_frame(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await published(desk, "1-3")
    programs = desk.folder / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    refused = await desk.run("video", job, "-o", "film.mp4")
    assert refused.code == 2 and "ffmpeg" in refused.content["error"]["message"]

    ffmpeg = programs / "ffmpeg"
    ffmpeg.symlink_to(get_ffmpeg_exe())
    made = await desk.run("video", job, "-o", "film.mp4")
    assert (made.code, made.content["frames"]) == (0, 3), made
    film = desk.folder / "film.mp4"
    frames, seconds = await asyncio.to_thread(count_frames_and_secs, str(film))
    assert (frames, seconds) == (3, pytest.approx(3 / 24, abs=0.05))
    assert leftovers(desk.folder) == []

    ffmpeg.unlink()
    ffmpeg.write_text("#!/bin/sh\necho no such codec >&2\nexit 1\n")
    ffmpeg.chmod(0o755)
    whole = film.read_bytes()
    failed = await desk.run("video", job, "-o", "film.mp4")
    assert failed.code == 2 and "no such codec" in failed.content["error"]["message"]
    assert film.read_bytes() == whole and leftovers(desk.folder) == []


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob(".tessera-*"))
