"""Pictures against references of known error, by statistics.

A reference is rendered in 16 batches with seeds of their own, so that the comparison knows our error as
well as the reference's. Each test also shows that it could fail: a copy 2 % brighter has to.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.tracer.scene_json import environment_of, scene_of
from tests.tracer.worlds import film_of
from tracer.build import prepare
from tracer.film import NONFINITE, resolve
from tracer.images import to_srgb8, write_png
from tracer.loaders import load_scene
from tracer.scene import View

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "scenes"
BATCHES = 16

pytestmark = pytest.mark.skipif(
    not (SHARED / "compare.py").is_file(), reason="the reference pictures are not in ../shared"
)

Image = NDArray[np.float64]


class Folder:
    """The files of one folder as a loader reads them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, path: str) -> bytes:
        return (self._path / path).read_bytes()


def render_batches(name: str, samples: int) -> tuple[Image, Image]:
    """(mean, its standard error) of BATCHES renders with size, depth, lens and sky as the reference has."""
    folder = SHARED / "reference" / name
    facts = json.loads((folder / "scene.json").read_text())
    if (folder / "scene.glb").is_file():
        scene = load_scene("scene.glb", Folder(folder))
        scene = replace(scene, environment=environment_of(facts, folder))
    else:
        scene = scene_of(facts, folder)
    view = View(
        width=facts["film"]["width"],
        height=facts["film"]["height"],
        max_depth=facts["integrator"]["max_depth"],
        backfaces_black=True,
        aperture_radius=facts["camera"].get("aperture_radius", 0.0),
        focus_distance=facts["camera"].get("focus_distance"),
    )
    pictures = []
    for seed in range(BATCHES):
        film = film_of(prepare(scene, view._replace(seed=seed)), samples)
        assert film[..., NONFINITE].sum() == 0
        layers = resolve(film, samples)
        pictures.append(np.stack([layers[c] for c in "RGB"], axis=-1).astype(np.float64))
    batches = np.array(pictures)
    return batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(BATCHES)


def compare(name: str, mean: Image, error: Image, folder: Path) -> tuple[bool, str]:
    """Whether the picture agrees with the reference, and what was found."""
    np.save(folder / "picture.npy", mean)
    np.save(folder / "error.npy", error)
    command = [sys.executable, str(SHARED / "compare.py"), str(folder / "picture.npy")]
    command += [str(SHARED / "reference" / name), "--test-se", str(folder / "error.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


def leave_evidence(name: str, mean: Image, folder: Path) -> None:
    reference = np.load(SHARED / "reference" / name / "ref_mean.npy")
    images = (("picture", mean), ("reference", reference), ("difference", 4.0 * np.abs(mean - reference)))
    for what, image in images:
        write_png(folder / f"{what}.png", to_srgb8(image.astype(np.float32)))


# Samples of one batch. Fewer would leave too little in a pixel for its scatter to be a good error.
SAMPLES = {
    "cornell_box": 8,
    "furnace_diffuse": 4,
    "plane_point_light": 8,
    "plane_area_light": 8,
    "instances": 8,
    "smooth_normals": 8,
    "suzanne_hdri": 8,
    "many_emitters": 32,
    "furnace_ggx": 8,
    "textured_quads": 8,
    "thin_lens": 8,
    "envmap_spheres": 8,
    "furnace_glass": 4,
    "glass_sphere": 16,
    "gltf_metals": 8,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_it_agrees_with_the_reference(name: str, tmp_path: Path) -> None:
    mean, error = render_batches(name, SAMPLES[name])
    agrees, found = compare(name, mean, error, tmp_path)
    if not agrees:
        leave_evidence(name, mean, tmp_path)
    assert agrees, f"{name}: see {tmp_path}\n{found}"
    brighter, found = compare(name, 1.02 * mean, 1.02 * error, tmp_path)
    assert not brighter, f"{name}: the test has no power\n{found}"


def test_the_gltf_materials_inside_each_quad(tmp_path: Path) -> None:
    """That reference evaluates the formula of Appendix B without shadows, which two quads throw on others:
    so only the insides are compared, and the few shadowed pixels count as outliers."""
    name = "gltf_direct_quads"
    mean, _ = render_batches(name, 4)
    reference = np.load(SHARED / "reference" / name / "ref_mean.npy").astype(np.float64)
    brightest = reference.max(axis=-1)
    near = [np.roll(brightest, (y, x), (0, 1)) for y in (-2, -1, 0, 1, 2) for x in (-2, -1, 0, 1, 2)]
    inside = (np.min(near, axis=0) > 0.7 * brightest) & (brightest > 0.0)
    ratio = mean[inside] / reference[inside]
    close = (np.abs(ratio - 1.0) < 0.005).all(axis=-1)
    leave_evidence(name, mean, tmp_path)
    assert inside.sum() > 4000
    assert close.mean() > 0.97, f"{name}: see {tmp_path}"
    assert np.median(ratio) == pytest.approx(1.0, abs=5e-4)
