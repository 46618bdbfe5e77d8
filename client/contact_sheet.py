"""`tessera contact-sheet`: the frames of a sequence in one picture, in order, each under its number."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from client.commands import print_document
from client.errors import BadInput, ExitCode
from client.fetch import check_outputs, fetch_preview
from client.published import published
from client.report import steps
from client.sequence_commands import recorded_sequence
from client.session import session
from contracts import SequenceRequest
from settings import Settings
from store import Store

if TYPE_CHECKING:
    from PIL import Image

CELL = 240
"""Edge of the square that holds a frame, in pixels: larger pictures are scaled down, none is enlarged."""
MARGIN, LABEL = 8, 16
SHEET_ASPECT = 16 / 9
BACKGROUND, MISSING, TEXT = (24, 24, 24), (48, 48, 48), (200, 200, 200)


async def contact_sheet(given: argparse.Namespace, settings: Settings) -> ExitCode:
    """Works at any moment: frames that are not published yet are empty places."""
    output = Path(given.output)
    check_outputs([output])
    if output.suffix.lower() != ".png":
        raise BadInput(f"{output}: a contact sheet is a .png")
    async with session(settings) as opened:
        request = recorded_sequence(opened, given.job)
        with steps() as progress:
            pictures = dict(previews(opened.store, request, progress, CELL))
    if not pictures:
        raise BadInput(f"{given.job}: no frame of it is published yet")
    write_sheet(output, sorted(request.numbers), pictures)
    if given.json:
        print_document({"job_id": given.job, "output": str(output), "frames": sorted(pictures)})
    else:
        print(f"wrote {output}: {len(pictures)} of {len(request.numbers)} frames")
    return ExitCode.DONE


def previews(
    store: Store, request: SequenceRequest, progress: Callable[[str], None], edge: int | None = None
) -> Iterator[tuple[int, Image.Image]]:
    """The published frames in the order of their numbers: sRGB pictures over black, no larger than edge.

    Raises Unreachable for one that is damaged or gone."""
    from PIL import Image

    with tempfile.TemporaryDirectory(prefix="tessera-frames-") as folder:
        file = Path(folder) / "frame.png"
        for number in sorted(request.numbers):
            progress(f"frame {number}")
            frame = request.frame(number)
            manifest = published(store, frame.job_id, frame.idempotency_key)
            if manifest is None:
                continue
            fetch_preview(store, manifest, file)
            with Image.open(file) as picture:
                picture.load()
            if edge is not None:
                picture.thumbnail((edge, edge))
            yield number, over_black(picture)


def over_black(picture: Image.Image) -> Image.Image:
    """Without its transparency, of a picture whose environment is hidden."""
    from PIL import Image

    if picture.mode != "RGBA":
        return picture.convert("RGB")
    black = Image.new("RGB", picture.size)
    black.paste(picture, mask=picture.getchannel("A"))
    return black


def write_sheet(output: Path, numbers: Sequence[int], pictures: dict[int, Image.Image]) -> None:
    """Every number has a place, with its picture or without. Raises BadInput where it cannot be written."""
    from PIL import Image, ImageDraw

    from tracer.images import replace_file

    width = max(picture.width for picture in pictures.values())
    height = max(picture.height for picture in pictures.values())
    across, down = width + MARGIN, height + LABEL + MARGIN
    columns = columns_of(len(numbers), across / down)
    rows = math.ceil(len(numbers) / columns)
    sheet = Image.new("RGB", (columns * across + MARGIN, rows * down + MARGIN), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    for place, number in enumerate(numbers):
        row, column = divmod(place, columns)
        x, y = MARGIN + column * across, MARGIN + row * down
        if number in pictures:
            sheet.paste(pictures[number], (x, y))
        else:
            draw.rectangle((x, y, x + width - 1, y + height - 1), MISSING)
        draw.text((x, y + height + 2), str(number), TEXT)
    try:
        with replace_file(output) as temporary:
            sheet.save(temporary, "PNG")
    except OSError as error:
        raise BadInput(f"{output}: {error.strerror or error}") from error


def columns_of(frames: int, cell_aspect: float) -> int:
    """So many that the sheet is about as wide as a screen."""
    return min(frames, max(1, round(math.sqrt(frames * SHEET_ASPECT / cell_aspect))))
