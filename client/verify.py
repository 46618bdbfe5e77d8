"""Proving a published frame: every hash again, the films merged again, the pictures encoded again."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from client.errors import BadInput
from client.published import is_job_name
from contracts import FilmRecord, FramePlan, Manifest, PublishedFrame, Tile
from store import NotFound, Store, layout
from store.base import Progress
from store.blobs import stored_digest
from workflows.tiling import tile_at, tile_count

if TYPE_CHECKING:
    from activities.merge import Film, MergedFrame


def load_manifest(store: Store, name: str) -> tuple[str, bytes]:
    """(job id, the manifest's bytes). name: a job's id, a manifest's key in the store, or a file's path.

    Raises BadInput where there is none.
    """
    if Path(name).is_file():
        return Path(name).stem, Path(name).read_bytes()
    job_id = name.removeprefix(layout.manifests()).removesuffix(".json")
    with suppress(NotFound):
        if is_job_name(job_id):
            return job_id, store.get(layout.manifest(job_id))[0]
    raise BadInput(f"{name[:200]!r}: not published; there is nothing to verify")


class Verification:
    """Checks one manifest against the store, and the store against itself.

    faults says what is wrong, one line each, naming the key; the picture is exactly what its manifest
    claims if there are none. checked says what was looked at. Raises StoreError where the store does not
    answer: what is gone or damaged is a fault.
    """

    def __init__(self, store: Store, job_id: str, data: bytes, progress: Progress) -> None:
        self.job_id = job_id
        self.checked: list[str] = []
        self.faults: list[str] = []
        self.frame: PublishedFrame | None = None
        self._store = store
        self._progress = progress
        self._name = layout.manifest(job_id)
        try:
            self.frame = Manifest.decode(data).frame
        except ValueError as error:
            self.faults.append(f"{self._name}: damaged: {str(error).splitlines()[0]}")
            return
        self._check_identity(self.frame)
        self._check_blobs(self.frame)
        self._check_films(self.frame)

    def check(self, fine: bool, fault: str) -> bool:
        if not fine:
            self.faults.append(fault)
        return fine

    def _check_identity(self, frame: PublishedFrame) -> None:
        """The names are what the request makes them."""
        request = frame.request
        for fine, fault in (
            (frame.job_id == self.job_id, f"is the manifest of {frame.job_id}"),
            (frame.job_id == request.job_id, "its job id does not follow from its request"),
            (frame.idempotency_key == request.idempotency_key, "its key does not follow from its request"),
            (frame.sample_key == request.sample_key(frame.engine), "its sample_key does not follow either"),
            (frame.bundle.version == request.scene.version, "its files are not those of its scene"),
        ):
            self.check(fine, f"{self._name}: {fault}")
        self.checked.append("identity follows from the request")

    def _check_blobs(self, frame: PublishedFrame) -> None:
        """The scene's files and the pictures are there, with the hashes that the manifest says."""
        for file in frame.bundle.files:
            self._check_blob(layout.blob(file.sha256), file.sha256, file.size)
        for image in frame.images:
            self._check_blob(image.key, image.sha256, image.size)
        self.checked.append(f"{len(frame.bundle.files)} files of the scene, {len(frame.images)} pictures")

    def _check_blob(self, key: str, sha256: str, size: int) -> None:
        self._progress(key)
        try:
            found = stored_digest(self._store, key, lambda step: self._progress(key))
        except NotFound:
            self.faults.append(f"{key}: gone from the store")
            return
        said = f"the manifest says {size} bytes with {sha256[:16]}"
        self.check(found == (sha256, size), f"{key}: {found[1]} bytes with sha256 {found[0][:16]}; {said}")

    def _check_films(self, frame: PublishedFrame) -> None:
        """Every film, and the pictures that they make together."""
        from activities.merge import MissingTiles, merge

        try:
            self.checked.append(self._store.get(layout.expired(frame.job_id))[0].decode())
            return
        except NotFound:
            pass  # as it should be: `tessera gc` has not removed the films
        plan = plan_of(frame)
        records = {record.tile_id: record for record in frame.films}
        tiles = {tile_at(plan, number).tile_id for number in range(tile_count(plan))}
        self.check(
            set(records) == tiles and len(records) == len(frame.films),
            f"{self._name}: its {len(frame.films)} films are not one of each of {len(tiles)} tiles",
        )

        def film_of(tile: Tile) -> Film | None:
            record = records.get(tile.tile_id)
            return None if record is None else self._film(frame, tile, record)

        with tempfile.TemporaryDirectory(prefix="tessera-verify-") as folder:
            try:
                merged = merge(plan, frame.request, Path(folder), film_of)
            except MissingTiles:
                return  # each is a fault already
            self._compare(frame, merged)

    def _film(self, frame: PublishedFrame, tile: Tile, record: FilmRecord) -> Film | None:
        """The tile's film, if it is the one that the manifest names."""
        from tracer.errors import FilmInvalid
        from tracer.film import decode_film

        self._progress(record.key)
        shape = (tile.height, tile.width)
        try:
            data, _ = self._store.get(record.key)
            film, samples = decode_film(data, sample_key=frame.sample_key, tile_id=tile.tile_id, shape=shape)
        except NotFound:
            self.faults.append(f"{record.key}: gone from the store")
            return None
        except FilmInvalid as error:
            self.faults.append(f"{record.key}: {error}")
            return None
        sha256, wanted = hashlib.sha256(data).hexdigest(), frame.request.samples_per_pixel
        fine = sha256 == record.sha256 and samples == record.samples == wanted
        said = f"not {record.sha256[:16]} with {wanted}"
        self.check(fine, f"{record.key}: sha256 {sha256[:16]} with {samples} samples, {said}")
        return film if fine else None

    def _compare(self, frame: PublishedFrame, merged: MergedFrame) -> None:
        from tracer import engine

        self.checked.append(f"{len(frame.films)} films, merged again")
        same = merged.film_sha256 == frame.film_sha256
        self.check(same, f"{self._name}: its films make another film than film_sha256 says")
        count = merged.nonfinite
        self.check(
            count == frame.nonfinite_samples, f"{self._name}: the films have {count} non-finite samples"
        )
        if engine.fingerprint() != frame.engine:
            self._compare_pixels(frame, merged.exr)
            return
        for path, image in zip((merged.exr, merged.png), frame.images, strict=True):
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            self.check(sha256 == image.sha256, f"{image.key}: the films make other bytes")
        self.checked.append("pictures encoded again, byte for byte the same")

    def _compare_pixels(self, frame: PublishedFrame, made: Path) -> None:
        """Another version of the encoder may write the same pixels in other bytes."""
        from tracer.images import ImageInvalid, same_pixels

        published, image = made.with_name("published.exr"), frame.images[0]
        try:
            with self._store.open(image.key) as source, open(published, "wb") as target:
                while piece := source.read(1 << 20):
                    target.write(piece)
            same = same_pixels(made, published)
        except (NotFound, ImageInvalid):
            return  # a fault already: its hash is wrong
        self.check(same, f"{image.key}: the films make other pixels")
        self.checked.append(f"pixels are the same; bytes not compared, engine {frame.engine} wrote them")


def plan_of(frame: PublishedFrame) -> FramePlan:
    """The plan that the frame was rendered by, as far as rendering needs it."""
    return FramePlan(
        sample_key=frame.sample_key,
        engine=frame.engine,
        request=frame.request,
        scene_hash=frame.scene_hash,
        width=frame.width,
        height=frame.height,
        tile_size=frame.tile_size,
    )
