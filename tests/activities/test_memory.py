"""Finalizing holds one row of tiles, however tall the picture is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from contracts import FramePlan
from store import layout, open_store
from tests import frames
from tracer.film import NONFINITE, encode_film, new_film
from workflows.tiling import tile_at, tile_count

ROOT = Path(__file__).resolve().parents[2]
WIDTH, EDGE = 1024, 128

FINALIZE = """
import resource, sys
from pathlib import Path
from contracts import FramePlan
from store import open_store
from tests import frames
store = open_store(sys.argv[1])
plan = FramePlan.model_validate_json(Path(sys.argv[2]).read_bytes())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert frames.finalize(store, plan.request, plan).result is not None
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def growth(tmp_path: Path, url: str, height: int) -> int:
    """Bytes by which the process that finalizes a frame of this height grows."""
    store = open_store(url)
    request = frames.submit(store, samples=1, width=WIDTH, height=height)
    plan = FramePlan(
        sample_key=request.sample_key("e"),
        engine="e",
        request=request,
        scene_hash="3" * 64,
        width=WIDTH,
        height=height,
        tile_size=EDGE,
    )
    film = new_film(EDGE, EDGE)
    for number in range(tile_count(plan)):
        name = tile_at(plan, number).tile_id
        film[..., :NONFINITE] = np.random.default_rng(number).random(film.shape)[..., :NONFINITE]
        data = encode_film(film, sample_key=plan.sample_key, tile_id=name, samples=1)
        store.put_new(layout.film(plan.sample_key, name, 1), data)
    file = tmp_path / f"{height}.json"
    file.write_text(plan.model_dump_json())
    done = subprocess.run(
        [sys.executable, "-c", FINALIZE, url, str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return 1024 * int(done.stdout)


def test_memory_does_not_grow_with_the_picture(store_url: str, tmp_path: Path) -> None:
    small, large = growth(tmp_path, store_url, 256), growth(tmp_path, store_url, 2048)
    film_bytes = WIDTH * (2048 - 256) * 15 * 8
    assert large - small < film_bytes / 8, (small / 1e6, large / 1e6, film_bytes / 1e6)
