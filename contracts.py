"""Every model that crosses a process boundary, and the closed sets of states and error codes.

Standard library and pydantic only: workflows, activities, the client and the tests all import this
module, and nothing here may drag a renderer or a server into them.

Two strictnesses. What a *user* writes forbids unknown fields, because a misspelt option must not be
ignored. What *parts send each other* tolerates them, because an old worker must survive a new field.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Vec3 = tuple[float, float, float]
Finite = Annotated[float, Field(allow_inf_nan=False)]

MAX_EDGE = 16384
MAX_SAMPLES = 1 << 20


class UserInput(BaseModel):
    """Base of what people write: frozen, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Message(BaseModel):
    """Base of what parts send each other: frozen, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class FrameStatus(StrEnum):
    """The states of a frame, as the search attribute RenderStatus shows them."""

    QUEUED = "queued"
    """Accepted; it is being prepared, or waits for a worker that prepares it."""
    RUNNING = "running"
    """Prepared; its tiles are scheduled and none is rendered yet."""
    PROGRESSING = "progressing"
    """At least one tile is rendered and more are to come."""
    PAUSED = "paused"
    """Stopped by a person; films are kept and nothing renders until it is resumed."""
    FINALIZING = "finalizing"
    """Every tile is rendered; the picture is being merged, verified and published."""
    COMPLETED = "completed"
    """The manifest is in the store: the picture is published and verified."""
    FAILED_RETRYABLE = "failed_retryable"
    """A step failed for a reason that may pass; it is waiting to be tried again."""
    FAILED_TERMINAL = "failed_terminal"
    """Ended by an error that no retry can mend; the input must change."""
    DEAD_LETTERED = "dead_lettered"
    """Some tiles stopped making progress; the rest is rendered and an operator must decide."""
    CANCELLED = "cancelled"
    """Ended by a person; films are kept unless they were discarded."""

    @property
    def is_final(self) -> bool:
        return self in (FrameStatus.COMPLETED, FrameStatus.FAILED_TERMINAL, FrameStatus.CANCELLED)


class TileStatus(StrEnum):
    """The states of one tile, as `status --tiles` shows them."""

    QUEUED = "queued"
    """Not handed to a worker yet, or handed back by one that is leaving."""
    LEASED = "leased"
    """A worker has it and has not reported samples yet."""
    PROGRESSING = "progressing"
    """A worker has it and its heartbeats report samples."""
    RENDERED = "rendered"
    """Its film with all samples is in the store."""
    FAILED_RETRYABLE = "failed_retryable"
    """Its last attempt failed and the next one is waiting."""
    DEAD_LETTERED = "dead_lettered"
    """It stopped making progress, also alone in its process; an operator must decide."""


class ErrorCode(StrEnum):
    """The closed set of reasons for a failure. Cancellation and shutdown are not failures."""

    SCENE_INVALID = "scene_invalid"
    """The scene's files contradict themselves or their format."""
    SCENE_UNSUPPORTED = "scene_unsupported"
    """The scene is valid but needs something this renderer does not offer, or exceeds a limit."""
    ASSET_MISSING = "asset_missing"
    """A file that the scene refers to is not there or may not be read."""
    SETTINGS_INVALID = "settings_invalid"
    """The settings do not fit the scene, for example a camera it does not have."""
    RENDER_NONFINITE = "render_nonfinite"
    """More of the frame's samples were NaN or infinite than the stated bound allows."""
    NONDETERMINISTIC = "nondeterministic"
    """Two attempts at the same samples gave different bytes."""
    OUTPUT_CONFLICT = "output_conflict"
    """A manifest with another picture is already published under this frame's name."""
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    """A job of this name exists whose full idempotency key differs."""
    STORAGE_DENIED = "storage_denied"
    """The store refuses: no permission, read-only, or not there at all."""
    TILE_POISONOUS = "tile_poisonous"
    """A tile made no progress in a full round, nor alone in a process of its own."""

    STORAGE_UNAVAILABLE = "storage_unavailable"
    """The store did not answer or a reply was damaged; it may soon be back."""
    STORAGE_FULL = "storage_full"
    """The store has no room left; retried slowly, until somebody makes room."""
    OUT_OF_MEMORY = "out_of_memory"
    """The machine had too little memory for the step."""
    RENDERER_CRASHED = "renderer_crashed"
    """The process that rendered died of a signal."""
    WORKER_LOST = "worker_lost"
    """The worker stopped sending heartbeats: killed, stalled or cut off."""
    LEASE_HELD = "lease_held"
    """Another attempt holds the frame's lease."""
    LEASE_LOST = "lease_lost"
    """This attempt's lease ran out while it worked; another may have taken over."""
    INTERNAL = "internal"
    """An error that no rule foresaw; a defect of Tessera or of a library."""

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL_CODES


TERMINAL_CODES = frozenset(
    {
        ErrorCode.SCENE_INVALID,
        ErrorCode.SCENE_UNSUPPORTED,
        ErrorCode.ASSET_MISSING,
        ErrorCode.SETTINGS_INVALID,
        ErrorCode.RENDER_NONFINITE,
        ErrorCode.NONDETERMINISTIC,
        ErrorCode.OUTPUT_CONFLICT,
        ErrorCode.IDEMPOTENCY_CONFLICT,
        ErrorCode.STORAGE_DENIED,
        ErrorCode.TILE_POISONOUS,
    }
)


class Failure(Message):
    """One failure that is kept: says what went wrong, where, and what to do."""

    code: ErrorCode
    message: str
    attempt: int = 1
    worker: str = ""
    at: datetime
    tile_id: str | None = None


# --- what a person asks for ---------------------------------------------------------------------


class EnvironmentSettings(UserInput):
    """Light from infinitely far away: a lat-long picture in the bundle, or one constant radiance."""

    path: str | None = None
    radiance: Vec3 | None = None
    scale: Annotated[float, Field(ge=0)] = 1.0
    rotation_degrees: float = 0.0

    @model_validator(mode="after")
    def _one_source(self) -> EnvironmentSettings:
        if (self.path is None) == (self.radiance is None):
            raise ValueError("give either a picture file or three numbers R,G,B")
        if self.radiance is not None and min(self.radiance) < 0:
            raise ValueError("radiance must not be negative")
        return self


class CameraOverride(UserInput):
    """A camera given on the command line; what is not given comes from the automatic framing."""

    look_from: Vec3 | None = None
    look_at: Vec3 | None = None
    vertical_fov_degrees: Annotated[float, Field(gt=0, lt=180)] | None = None
    up: Literal["y", "z"] = "y"


class RenderSettings(UserInput):
    """Everything that can change a pixel, except the number of samples and what the scene says.

    width and height of None: height 720 and the width by the camera's aspect ratio, else 16:9.
    """

    width: Annotated[int, Field(ge=1, le=MAX_EDGE)] | None = None
    height: Annotated[int, Field(ge=1, le=MAX_EDGE)] | None = None
    max_depth: Annotated[int, Field(ge=1, le=1024)] = 8
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    fps: Annotated[float, Field(gt=0)] = 24.0
    environment: EnvironmentSettings | None = None
    hide_environment: bool = False
    backfaces: Literal["shade", "black"] = "shade"
    aperture_radius: Annotated[float, Field(ge=0)] = 0.0
    focus_distance: Annotated[float, Field(gt=0)] | None = None
    camera_override: CameraOverride | None = None

    @model_validator(mode="after")
    def _consistent(self) -> RenderSettings:
        if (self.width is None) != (self.height is None):
            raise ValueError("give both width and height, or neither")
        if self.aperture_radius > 0 and self.focus_distance is None:
            raise ValueError("an aperture needs a focus distance (--focus)")
        return self


class SceneRef(Message):
    """A scene bundle in the store. version is the sha256 over the bundle's paths and contents."""

    version: Sha256
    entry: str
    """The scene file's path inside the bundle."""


class BundleFile(Message):
    path: str
    """Relative to the bundle's root, with forward slashes."""
    sha256: Sha256
    size: int


class SceneBundle(Message):
    """The scene file and every file it refers to."""

    entry: str
    files: tuple[BundleFile, ...]

    @property
    def version(self) -> str:
        files = sorted((f.path, f.sha256, f.size) for f in self.files)
        return canonical_hash({"entry": self.entry, "files": files})


class FrameRequest(Message):
    """One frame to render: the input of the frame workflow and the source of its identity."""

    project_id: Annotated[str, Field(min_length=1, max_length=200)]
    scene: SceneRef
    camera: str | None = None
    """A camera's name or number in the scene; None for the scene's first camera."""
    frame_number: int = 1
    samples_per_pixel: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] = 64
    settings: RenderSettings = RenderSettings()
    picture_version: int
    """Raised by the tracer whenever pixels are meant to change."""
    priority: Annotated[int, Field(ge=0, le=100)] = 50
    weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """The project's share of a busy farm beside other projects of the same priority."""
    tile_size: Annotated[int, Field(ge=1, le=128)] | None = None
    park_limit_seconds: Annotated[int, Field(ge=1)] | None = None
    """How long a dead-lettered frame waits for an operator before it fails; None: for ever."""

    @property
    def settings_hash(self) -> str:
        return canonical_hash(self._pixels() | {"samples_per_pixel": self.samples_per_pixel})

    @property
    def idempotency_key(self) -> str:
        """Names the finished picture. Never from a clock or a random number."""
        return canonical_hash(self._subject() | {"settings_hash": self.settings_hash})

    @property
    def job_id(self) -> str:
        camera = slug(self.camera or "default", 24)
        stem = self.scene.entry.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        return (
            f"frame-{slug(self.project_id, 24)}-{slug(stem, 24)}-{camera}"
            f"-{self.frame_number:04d}-{self.idempotency_key[:16]}"
        )

    def sample_key(self, engine: str) -> str:
        """Names the one infinite sequence of samples that films of this frame are prefixes of."""
        return canonical_hash(self._subject() | self._pixels() | {"engine": engine})

    def _subject(self) -> dict[str, Any]:
        return {
            "project_id": self.project_id,
            "scene_version": self.scene.version,
            "camera": self.camera,
            "frame_number": self.frame_number,
        }

    def _pixels(self) -> dict[str, Any]:
        return {"settings": self.settings.model_dump(mode="json"), "picture_version": self.picture_version}


# --- plans and tiles ----------------------------------------------------------------------------


class Tile(Message):
    """A rectangle of the picture in pixels; row 0 is on top."""

    x: int
    y: int
    width: int
    height: int

    @property
    def tile_id(self) -> str:
        return f"x{self.x:04d}y{self.y:04d}w{self.width:04d}h{self.height:04d}"

    @property
    def area(self) -> int:
        return self.width * self.height


class FramePlan(Message):
    """How a frame is rendered, whatever its number of samples: stored once under sample_key.

    Holds all that a worker needs to render any tile, so that a tile's task is a few dozen bytes.
    """

    sample_key: Sha256
    engine: str
    """The engine's fingerprint; the frame's tiles run only on workers with the same one."""
    request: FrameRequest
    """The request that made the plan. Its samples_per_pixel and priority are NOT used from here."""
    scene_hash: Sha256
    """Hash of the prepared scene; a worker that prepares another one refuses to render."""
    width: int
    height: int
    tile_size: int
    warnings: tuple[str, ...] = ()
    seconds_per_sample: float = 0.0
    """Estimated render time of one sample of the whole frame on one thread, in seconds."""


class TileTask(Message):
    """The input of render_tile: one tile, or a few so cheap that each alone would be mostly overhead."""

    job_id: str
    sample_key: Sha256
    tiles: tuple[Tile, ...]
    samples: int
    """How many samples a pixel a film has when its tile is rendered."""


class TileOutcome(StrEnum):
    RENDERED = "rendered"
    """The film with all samples is in the store."""
    YIELDED = "yielded"
    """The worker is leaving; what it had is in the store and another goes on from there."""
    STOPPED = "stopped"
    """Paused or cancelled; what it had is in the store."""


class TileResult(Message):
    """What one attempt reports."""

    rendered: int = 0
    """Samples (pixels times samples) that the attempt itself has rendered and stored."""
    past: tuple[dict[str, Any], ...] = ()
    """What the activity's earlier attempts last said of themselves: see activities/attempt.py."""

    outcome: TileOutcome
    finished: int
    """How many of the task's tiles, from the first on, are rendered."""
    resumed: int = 0
    """Samples of the finished tiles (pixels times samples) that came from checkpoints."""
    attempt: int = 1
    worker: str = ""


class RunCounts(Message):
    """What a run did, in samples (pixels times samples a pixel) and attempts."""

    tiles: int = 0
    samples_target: int = 0
    samples_rendered: int = 0
    samples_resumed: int = 0
    attempts: int = 0
    attempts_lost: int = 0
    attempts_yielded: int = 0


Ranges = tuple[tuple[int, int], ...]
"""A set of tile numbers as half-open ranges."""


class FinalizeTask(Message):
    """The input of finalize_frame. The plan is the workflow's own: the numbers of tiles mean its tiling."""

    job_id: str
    plan: FramePlan
    request: FrameRequest
    counts: RunCounts
    created_at: datetime
    workers: dict[str, Ranges] = {}
    """Which worker reported which tiles as rendered."""
    attempts: dict[int, int] = {}
    """Attempts of the tiles that took another number than one."""


class FrameResult(Message):
    """Where the published picture is. image is the EXR."""

    manifest: str
    image: str
    sha256: Sha256
    film_sha256: Sha256


class FinalizeOutcome(Message):
    """Either the published frame, or the tiles whose films are missing or damaged."""

    result: FrameResult | None = None
    missing: tuple[int, ...] = ()
    """Numbers of tiles that have to be rendered again before the frame can be published."""


class ImageRecord(Message):
    """One published picture. key is its place in the store."""

    name: str
    key: str
    sha256: Sha256
    size: int


class FilmRecord(Message):
    tile_id: str
    key: str
    sha256: Sha256
    samples: int


class TileRecord(Message):
    """Who rendered a tile, in the run that published the frame."""

    tile_id: str
    attempts: int
    worker: str


class PublishedFrame(Message):
    """What two finalizers of one frame must agree on, byte for byte."""

    idempotency_key: Sha256
    job_id: str
    sample_key: Sha256
    engine: str
    scene: SceneRef
    bundle: SceneBundle
    scene_hash: Sha256
    request: FrameRequest
    width: int
    height: int
    tile_size: int
    film_sha256: Sha256
    nonfinite_samples: int
    images: tuple[ImageRecord, ...]
    films: tuple[FilmRecord, ...]


class Publication(Message):
    """What may differ between two finalizers of the same picture: not compared."""

    attempt_id: str
    worker: str
    fence: int = 0
    """The fence of the lease under which it was finalized."""
    requested_at: datetime
    created_at: datetime
    counts: RunCounts
    tiles: tuple[TileRecord, ...] = ()


class Manifest(Message):
    """The record that makes a frame published. Written once, create-only, never changed."""

    frame: PublishedFrame
    publication: Publication

    def encode(self) -> bytes:
        """The stored form: JSON for people, with a hash over its own content."""
        content = self.model_dump(mode="json")
        return json.dumps(content | {"sha256": canonical_hash(content)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Raises ValueError where the content is not the one that was written."""
        content = json.loads(data)
        if not isinstance(content, dict) or content.pop("sha256", None) != canonical_hash(content):
            raise ValueError("its content does not match its sha256")
        return cls.model_validate(content)

    def agrees_with(self, other: Manifest) -> bool:
        """Whether both say the same pictures and films; where they are stored may differ."""
        return self._pictures() == other._pictures()

    def _pictures(self) -> dict[str, Any]:
        frame = self.frame.model_dump(mode="json")
        for image in frame["images"]:
            del image["key"]  # every attempt uploads under its own name
        for ignored in ("priority", "weight", "tile_size", "park_limit_seconds"):
            del frame["request"][ignored]
        return frame


class FrameRun(Message):
    """The frame workflow's input and its whole state: what continue-as-new carries over."""

    request: FrameRequest
    created_at: datetime | None = None
    """When the first run of this chain began; None in a client's request."""
    plan: FramePlan | None = None
    rendered: Ranges = ()
    """Tiles that are rendered, by their numbers in the tiling."""
    workers: dict[str, Ranges] = {}
    attempts: dict[int, int] = {}
    """As in FinalizeTask."""
    standing: dict[int, int] = {}
    """Samples in the store when a tile's last round failed: the next one has to do better."""
    isolated: tuple[int, ...] = ()
    """Tiles whose last round ended without progress: they run alone in their process."""
    dead: dict[int, Failure] = {}
    """Tiles that made no progress in isolation either, by number."""
    counts: RunCounts = RunCounts()
    paused: bool = False
    discard: bool = False
    last_failure: Failure | None = None


class DeadLetter(Message):
    """Why a frame waits for an operator: stored beside the job until it is decided."""

    job_id: str
    request: FrameRequest
    failures: tuple[Failure, ...]
    created_at: datetime


# --- status -------------------------------------------------------------------------------------


class TileCounts(Message):
    total: int = 0
    rendered: int = 0
    running: int = 0
    dead: int = 0


class SampleCounts(Message):
    """In samples: pixels times samples a pixel. rendered + resumed is target when complete."""

    target: int = 0
    rendered: int = 0
    resumed: int = 0


class AttemptCounts(Message):
    total: int = 0
    lost: int = 0
    yielded: int = 0


class LeaseRecord(Message):
    owner: str
    expires_at: datetime
    fence: int


class JobStatus(Message):
    """What `status --json` prints, and what the workflow's status query answers."""

    job_id: str
    idempotency_key: str
    status: FrameStatus
    frame: int
    progress: float = 0.0
    tiles: TileCounts = TileCounts()
    samples: SampleCounts = SampleCounts()
    attempts: AttemptCounts = AttemptCounts()
    samples_per_second: float = 0.0
    """Of the last minute, by the tiles that render right now; 0 where none does."""
    seconds_left: float | None = None
    """At this rate; None where it cannot be told."""
    dead_tiles: tuple[str, ...] = ()
    error: Failure | None = None
    result: FrameResult | None = None
    input_hash: str | None = None
    """The sample_key, once the frame is prepared."""
    max_retries: int = 0
    lease: LeaseRecord | None = None
    progress_pointer: str | None = None
    """The store prefix under which the newest checkpoints are."""
    created_at: datetime
    updated_at: datetime
    engine: str | None = None
    warnings: tuple[str, ...] = ()
    note: str | None = None
    """Something a person should know, for example that no worker of the engine is there."""


# --- sequences ----------------------------------------------------------------------------------


class SequenceStatus(StrEnum):
    """The states of a sequence, as the search attribute RenderStatus shows them beside those of frames."""

    RUNNING = "running"
    """Frames are rendered, a few at a time, or wait for their turn."""
    PAUSED = "paused"
    """Stopped by a person: no frame of it renders and none is started until it is resumed."""
    AWAITING_APPROVAL = "awaiting_approval"
    """Each Nth frame is done; the rest is not started before a person has approved them."""
    DEAD_LETTERED = "dead_lettered"
    """All else is done; the frames that are left wait for an operator's retry or cancel."""
    COMPLETED = "completed"
    """Every frame is published."""
    FAILED_TERMINAL = "failed_terminal"
    """Every frame has ended, and some of them without a picture."""
    CANCELLED = "cancelled"
    """Ended by a person; what is published stays."""

    @property
    def is_final(self) -> bool:
        ends = (SequenceStatus.COMPLETED, SequenceStatus.FAILED_TERMINAL, SequenceStatus.CANCELLED)
        return self in ends


SEQUENCE_PREFIX = "sequence-"
"""What a sequence's job_id begins with, and no frame's."""


class SequenceRequest(Message):
    """Frames of one scene that differ in nothing but their number."""

    template: FrameRequest
    """Any of them; its frame_number is not used."""
    frames: tuple[tuple[int, int, int], ...]
    """The frames' numbers as (first, last, step), last included, in the order they are rendered in."""
    every: Annotated[int, Field(ge=2)] | None = None
    """Each so-manieth frame is rendered first, and the rest when a person has approved them."""

    @property
    def numbers(self) -> list[int]:
        """The frames' numbers, each once."""
        spans = (range(first, last + 1, step) for first, last, step in self.frames)
        return list(dict.fromkeys(number for span in spans for number in span))

    def frame(self, number: int) -> FrameRequest:
        return self.template.model_copy(update={"frame_number": number})

    @property
    def idempotency_key(self) -> str:
        """Names the set of pictures, by the key of the lowest frame and the numbers of all: neither the order
        of the frames nor their approval is part of it."""
        numbers = sorted(self.numbers)
        return canonical_hash({"frame": self.frame(numbers[0]).idempotency_key, "numbers": numbers})

    @property
    def job_id(self) -> str:
        numbers = self.numbers
        stem = self.frame(min(numbers)).job_id.removeprefix("frame-").rpartition("-")[0]
        return f"{SEQUENCE_PREFIX}{stem}-{max(numbers):04d}-{self.idempotency_key[:16]}"


class SequenceRun(Message):
    """The sequence workflow's input and its whole state: what continue-as-new carries over.

    Ranges are of frame numbers."""

    request: SequenceRequest
    created_at: datetime | None = None
    """When the first run of this chain began; None in a client's request."""
    published: Ranges = ()
    own: Ranges = ()
    """Frames that this sequence has started and that have not ended: those that it pauses and cancels."""
    failed: Ranges = ()
    failures: dict[int, Failure] = {}
    """Why frames failed, of the first ones."""
    cancelled: Ranges = ()
    parked: Ranges = ()
    """Frames that waited for an operator when the last run ended: they are looked at again."""
    approved: bool = False
    paused: bool = False
    discard: bool = False


class FrameNews(Message):
    """What a frame tells of itself, or is seen of it from outside."""

    frame_number: int
    status: FrameStatus
    """RUNNING for all that is neither parked nor ended."""
    failure: Failure | None = None


class WatchedFrame(Message):
    """The input of watch_frame: returns when the frame is something else than `seen`."""

    job_id: str
    idempotency_key: Sha256
    frame_number: int
    seen: FrameStatus | None = None


class SequenceBatch(Message):
    """The input of published_frames."""

    template: FrameRequest
    numbers: tuple[int, ...]


class FrameCounts(Message):
    """Frames of a sequence by their state."""

    total: int = 0
    published: int = 0
    running: int = 0
    waiting: int = 0
    dead_lettered: int = 0
    failed: int = 0
    cancelled: int = 0


class SequenceReport(Message):
    """What `status --json` prints of a sequence, and what the workflow's status query answers."""

    job_id: str
    idempotency_key: str
    status: SequenceStatus
    progress: float = 0.0
    """Share of the frames that are published."""
    frames: FrameCounts = FrameCounts()
    published: Ranges = ()
    running: tuple[int, ...] = ()
    dead_lettered: tuple[int, ...] = ()
    failed: Ranges = ()
    cancelled: Ranges = ()
    failures: dict[int, Failure] = {}
    """Why frames failed or wait for an operator, by frame number."""
    approved: bool = False
    """Whether a person has let the rest follow the first frames."""
    created_at: datetime
    updated_at: datetime
    note: str | None = None


def canonical_hash(value: Any) -> str:
    """sha256 of the canonical JSON: sorted keys, no spaces, ASCII, shortest round-trip floats."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def slug(text: str, length: int) -> str:
    """Letters, digits and single dashes for readable names; "x" where nothing of the text is left."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:length].strip("-") or "x"
