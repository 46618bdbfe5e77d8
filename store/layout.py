"""Every key of the store, in one place. Pure functions: a name in, a key out, and the way back.

    scenes/<scene_version>/bundle.json            the list of a scene's files
    blobs/<2 hex>/<sha256>                        a file of a scene, by its content
    jobs/<job_id>.json                            what a job was asked to be
    sequences/<job_id>.json                       what a sequence was asked to be
    plans/<sample_key>.json                       how a frame is cut into tiles
    films/<sample_key>/<tile_id>/<samples>.film   a checkpoint of a tile
    images/<job_id>/<attempt>/<name>              pictures, under the name of the attempt that made them
    manifests/<job_id>.json                       the record that makes a frame published
    leases/<job_id>.json                          who finalizes the frame; never deleted
    dead-letters/<job_id>.json                    why a frame waits for an operator
    expired/<job_id>.txt                          when and why the films of a published frame were removed
    set-aside/<key>/<sha256>                      damaged blobs, kept for a person to look at

All raise ValueError for a name that cannot be part of a key.
"""

from __future__ import annotations

import re

MAX_KEY = 900
"""S3 ends at 1024 bytes; this leaves room for the prefix of a bucket."""
MAX_SEGMENT = 200
"""File systems end a name at 255 bytes."""

SEGMENT = re.compile(rf"[A-Za-z0-9_=-][A-Za-z0-9._=-]{{0,{MAX_SEGMENT - 1}}}")
"""One part of a key. No leading dot: those names are the back end's own, and ".." would climb out."""

MAX_SAMPLES = 99_999_999

_FILM_NAME = re.compile(r"([0-9]{8})\.film")


def check_key(key: str) -> str:
    """The key itself, or ValueError where a back end could not store it under this name."""
    if len(key) > MAX_KEY or not all(SEGMENT.fullmatch(segment) for segment in key.split("/")):
        raise ValueError(
            f"{key[:120]!r} is no key: a key is segments of letters, digits and . _ = - joined by '/', none "
            f"with a leading dot, at most {MAX_SEGMENT} characters each and {MAX_KEY} in all"
        )
    return key


def bundle(scene_version: str) -> str:
    return f"scenes/{_segment(scene_version)}/bundle.json"


def blob(sha256: str) -> str:
    return f"blobs/{sha256[:2]}/{_segment(sha256)}"


def job(job_id: str) -> str:
    return f"jobs/{_segment(job_id)}.json"


def sequence(job_id: str) -> str:
    return f"sequences/{_segment(job_id)}.json"


def plan(sample_key: str) -> str:
    return f"plans/{_segment(sample_key)}.json"


def films(sample_key: str, tile_id: str | None = None) -> str:
    """The prefix of a frame's films, or of one tile's."""
    frame = f"films/{_segment(sample_key)}/"
    return frame if tile_id is None else f"{frame}{_segment(tile_id)}/"


def film(sample_key: str, tile_id: str, samples: int) -> str:
    """Always eight digits, so that the order of keys is the order of samples."""
    if not 1 <= samples <= MAX_SAMPLES:
        raise ValueError(f"a film has 1 to {MAX_SAMPLES} samples, not {samples}")
    return f"{films(sample_key, tile_id)}{samples:08d}.film"


def film_samples(key: str) -> int | None:
    """The number of samples in a film's key; None where the key is not a film's."""
    match = _FILM_NAME.fullmatch(key.rsplit("/", 1)[-1])
    return int(match[1]) if match and key.startswith("films/") else None


def image(job_id: str, attempt_id: str, name: str) -> str:
    """attempt_id may hold slashes and anything else: it becomes one readable segment."""
    attempt = re.sub(r"[^A-Za-z0-9_=-]+", "-", attempt_id).strip("-")
    return f"images/{_segment(job_id)}/{_segment(attempt)}/{_segment(name)}"


def manifest(job_id: str) -> str:
    return f"manifests/{_segment(job_id)}.json"


def manifests() -> str:
    """The prefix of all manifests."""
    return "manifests/"


def lease(job_id: str) -> str:
    return f"leases/{_segment(job_id)}.json"


def dead_letters() -> str:
    """The prefix of all dead letters."""
    return "dead-letters/"


def plans() -> str:
    """The prefix of all plans."""
    return "plans/"


def dead_letter(job_id: str) -> str:
    return f"dead-letters/{_segment(job_id)}.json"


def expired(job_id: str) -> str:
    return f"expired/{_segment(job_id)}.txt"


def set_aside(key: str, sha256: str) -> str:
    """Named by content as well, so that setting the same damage aside twice is one blob."""
    return f"set-aside/{key}/{_segment(sha256)}"


def _segment(text: str) -> str:
    # Eight characters are left for what a function appends.
    if len(text) > MAX_SEGMENT - 8 or not SEGMENT.fullmatch(text):
        raise ValueError(f"{text[:120]!r} cannot be part of a key")
    return text
