"""`tessera dead-letters`: the frames that wait for an operator, and what is needed to look into each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from client.commands import print_document, print_statuses, unfinished
from client.desk import find_plan, nonfinite_sample, prepared, render_film
from client.errors import BadInput, ExitCode
from client.published import damaged, is_job_name
from client.rate import duration
from client.report import steps
from client.session import session
from contracts import DeadLetter, FramePlan, FrameStatus, Tile
from settings import Settings
from store import NotFound, Store, layout
from workflows.tiling import tile_at, tile_count


def letters(store: Store) -> Iterator[DeadLetter]:
    for stat in store.list(layout.dead_letters()):
        try:
            yield load(store, stat.key)
        except NotFound:  # decided since it was listed
            continue


def load(store: Store, key: str) -> DeadLetter:
    data, _ = store.get(key)
    try:
        return DeadLetter.model_validate_json(data)
    except ValueError as error:
        raise damaged(key, error) from error


def letter_of(store: Store, job_id: str) -> DeadLetter:
    with suppress(NotFound):
        if is_job_name(job_id):
            return load(store, layout.dead_letter(job_id))
    raise BadInput(f"{job_id[:200]!r}: is not dead-lettered; see `tessera dead-letters`")


async def dead_letters(given: argparse.Namespace, settings: Settings) -> ExitCode:
    if (given.action == "show") != (given.job is not None):
        raise BadInput("`dead-letters show JOB` shows one job, `dead-letters` lists all")
    async with session(settings) as opened:
        if given.job is not None:
            show(given, opened.store, letter_of(opened.store, given.job))
            return ExitCode.DONE
        now, found = opened.store.now(), list(letters(opened.store))
    if given.json:
        print_document({"dead_letters": [letter.model_dump(mode="json") for letter in found]})
        return ExitCode.DONE
    for letter in found:
        for failure in letter.failures:
            print(
                f"{letter.job_id}  frame {letter.request.frame_number}  {failure.tile_id or 'whole frame'}  "
                f"{failure.code}  {failure.attempt} attempts, last on {failure.worker or 'nobody'}  "
                f"{age_of(letter, now)} ago"
            )
    if not found:
        print("no frame is dead-lettered", file=sys.stderr)
    return ExitCode.DONE


def age_of(letter: DeadLetter, now: datetime) -> str:
    return duration(max(0.0, (now - letter.created_at).total_seconds()))


def show(given: argparse.Namespace, store: Store, letter: DeadLetter) -> None:
    """Everything that is needed to reproduce the failures on a desk."""
    commands = [
        f"tessera render-tile {letter.job_id} {failure.tile_id}"
        for failure in letter.failures
        if failure.tile_id is not None
    ]
    plan = find_plan(store, letter.request)
    if given.json:
        document = letter.model_dump(mode="json") | {"reproduce": commands}
        print_document(document | {"engine": plan.engine if plan else None})
        return
    print(f"{letter.job_id}, dead-lettered {age_of(letter, store.now())} ago")
    print(f"scene    {letter.request.scene.entry}, bundle {letter.request.scene.version}")
    print(f"request  {letter.request.model_dump_json()}")
    print(f"engine   {plan.engine if plan else 'never prepared'}")
    for failure in letter.failures:
        print(f"\n{failure.tile_id or 'whole frame'}: {failure.code}: {failure.message}")
        print(f"  {failure.attempt} attempts, last on {failure.worker or 'nobody'} at {failure.at:%F %T} UTC")
    if commands:
        print("\nTo reproduce, on a machine that has the same store:", *commands, sep="\n  ")
    print(
        f"\nThen: tessera retry {letter.job_id} [--tile TILE], or tessera cancel {letter.job_id} [--discard]"
    )


async def retry_job(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Another try for all that is dead of a job, or for the tiles that are named."""
    async with session(settings) as opened:
        status = await unfinished(opened, given.job)
        if status.status is not FrameStatus.DEAD_LETTERED:
            raise BadInput(f"{given.job} is {status.status}: only a dead-lettered job waits for a retry")
        if given.tile:
            dead = {failure.tile_id for failure in letter_of(opened.store, given.job).failures}
            if unknown := sorted(set(given.tile) - dead):
                raise BadInput(
                    f"--tile: {unknown[0]} is no dead tile of this job; see `tessera dead-letters`"
                )
        await opened.reach(
            lambda client: client.get_workflow_handle(given.job).signal("retry", given.tile or None)
        )
        status = await opened.status(given.job)
    print_statuses(given, [status])
    return ExitCode.DONE


async def render_tile(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """One tile in this process, without Temporal. Its film goes to a file, if one is named."""
    async with session(settings) as opened:
        request = opened.request(given.job)
        plan = find_plan(opened.store, request)
        if plan is None:
            raise BadInput(f"{given.job}: was never prepared, so it has no tiles")
        tile = tile_named(plan, given.tile)
        samples = given.samples or request.samples_per_pixel
        with steps() as progress:
            scene = prepared(opened.store, plan, progress)
            film = render_film(scene, plan, tile, samples, progress)
            nonfinite = nonfinite_sample(scene, film, tile, samples)
        stored = film_in_store(opened.store, layout.film(plan.sample_key, tile.tile_id, samples))
    if given.output is not None:
        Path(given.output).write_bytes(film)
    verdict = {
        None: "none in the store",
        True: "the same as in the store",
        False: "ANOTHER than in the store",
    }
    same = None if stored is None else stored == film
    if given.json:
        document = {"tile": tile.tile_id, "samples": samples, "bytes": len(film), "same_as_stored": same}
        print_document(document | {"nonfinite": nonfinite})
    else:
        if nonfinite is not None:
            print(nonfinite)
        print(f"{tile.tile_id}: {samples} samples, film of {len(film)} bytes, {verdict[same]}")
    return ExitCode.FAILED if same is False else ExitCode.DONE


def film_in_store(store: Store, key: str) -> bytes | None:
    try:
        return store.get(key)[0]
    except NotFound:
        return None


def tile_named(plan: FramePlan, name: str) -> Tile:
    for number in range(tile_count(plan)):
        tile = tile_at(plan, number)
        if tile.tile_id == name:
            return tile
    raise BadInput(f"{name}: no tile of this frame, whose first is {tile_at(plan, 0).tile_id}")
