"""glTF animations: how the nodes of a file stand at one time.

All animations of a file play at once, from time 0 and without repeating. Where two channels drive the same
property of a node, the first one in the file wins and the other is named in a warning. What moves anything
but nodes (weights of morph targets, KHR_animation_pointer) is named in a warning and shown at rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracer.loaders.accessors import Accessors
from tracer.loaders.container import Element
from tracer.loaders.interpolation import Moment, Values, cubic, find_moment, linear, normalized, slerp

Pose = dict[str, Values]
"""What animation says of one node, by `translation`, `rotation` (a unit quaternion) and `scale`."""
WIDTHS = {"translation": 3, "rotation": 4, "scale": 3}
RULES = ("LINEAR", "STEP", "CUBICSPLINE")
REMEDY = "export its translation, rotation and scale to animate it"
CUBIC_PARTS = 3
"""Elements of the output for each key: in-tangent, value, out-tangent."""


def read_poses(top: Element, accessors: Accessors, time: float, warnings: list[str]) -> dict[int, Pose]:
    """The poses at `time` (seconds) of the nodes that are animated, by the node's number.

    Raises SceneInvalid, naming the place, for an animation that contradicts itself or the specification.
    """
    nodes = top.children("nodes")
    clock = _Clock(top, accessors, time)
    poses: dict[int, Pose] = {}
    for animation in top.children("animations"):
        samplers = animation.children("samplers")
        found: dict[tuple[int, str], Values] = {}
        for channel in animation.children("channels"):
            target = channel.required("target")
            path = target.string("path")
            number = target.index("node", len(nodes))
            if path in ("weights", "pointer") or number is None:
                warnings.append(_ignored(animation, path))
                continue
            if path not in WIDTHS:
                raise target.fail("path", f"is none of {' '.join(WIDTHS)} weights")
            if "matrix" in nodes[number]:
                raise target.fail("node", f"nodes[{number}] is given by a matrix; {REMEDY}")
            sampler = channel.index("sampler", len(samplers))
            if sampler is None:
                raise channel.fail("sampler", "is missing")
            if (sampler, path) not in found:
                found[sampler, path] = clock.sample(samplers[sampler], path)
            if path in poses.setdefault(number, {}):
                warnings.append(f"{target.where()}: {path} of nodes[{number}] is driven already: ignored")
            else:
                poses[number][path] = found[sampler, path]
    return poses


def _ignored(animation: Element, path: str) -> str:
    shown = f"{animation.where()} {animation.name()}".rstrip()
    what = "morph targets are" if path == "weights" else "what is no node's property is"
    return f"{shown}: animation of {what} ignored: shown at rest"


class _Clock:
    """Samplers read at one time. Keeps no arrays: many samplers may share huge ones."""

    def __init__(self, top: Element, accessors: Accessors, time: float) -> None:
        self._accessors = accessors
        self._count = len(top.children("accessors"))
        self._time = time
        with np.errstate(over="ignore"):  # beyond float32 is after every key
            self._stored_time = float(np.float32(time))
        self._moments: dict[int | None, tuple[Moment, int]] = {}

    def sample(self, sampler: Element, path: str) -> Values:
        """The value of one sampler for a property of a node."""
        rule = sampler.string("interpolation", "LINEAR")
        if rule not in RULES:
            raise sampler.fail("interpolation", f"is none of {' '.join(RULES)}")
        moment, count = self._moment(sampler)
        parts = CUBIC_PARTS if rule == "CUBICSPLINE" else 1
        rows = self._outputs(sampler, path, count * parts)
        rotates = path == "rotation"
        if rotates and not rows[parts // 2 :: parts].any(axis=1).all():
            raise sampler.fail("output", "holds a quaternion of length 0")
        try:
            return _interpolate(rule, rows, moment, rotates)
        except ZeroDivisionError as error:
            raise sampler.fail(
                "output", f"leads through a quaternion of length 0 at {self._time:g} s"
            ) from error

    def _moment(self, sampler: Element) -> tuple[Moment, int]:
        """Where the time falls among the sampler's keys, and how many there are."""
        number = sampler.index("input", self._count)
        if number not in self._moments:
            if not self._accessors.is_float(sampler, "input"):
                raise sampler.fail("input", "the times of keys are not stored as floats")
            keys = self._accessors.floats(sampler, "input", (1,), np.float64)[:, 0]
            late = np.flatnonzero(keys[1:] <= keys[:-1])
            if len(late):
                key = int(late[0]) + 1
                raise sampler.fail("input", f"key {key} at {keys[key]:g} s is not after the one before it")
            self._moments[number] = find_moment(keys.tolist(), self._time, self._stored_time), len(keys)
        return self._moments[number]

    def _outputs(self, sampler: Element, path: str, wanted: int) -> NDArray[np.float64]:
        """(wanted, width) values for this property."""
        rows: NDArray[Any] = self._accessors.floats(sampler, "output", (WIDTHS[path],), np.float64)
        if self._accessors.is_integer(sampler, "output"):
            raise sampler.fail("output", f"{path} is stored as integers that are not normalized")
        if len(rows) != wanted:
            raise sampler.fail("output", f"has {len(rows)} elements; the keys need {wanted}")
        return rows


def _interpolate(rule: str, rows: NDArray[np.float64], moment: Moment, rotates: bool) -> Values:
    """Raises ZeroDivisionError where a rotation comes out as 0."""

    def row(number: int) -> Values:
        return tuple(rows[number].tolist())

    k = moment.key
    if rule == "CUBICSPLINE":
        at = CUBIC_PARTS * k
        value = row(at + 1)
        if moment.fraction > 0.0:
            value = cubic(value, row(at + 2), row(at + 3), row(at + 4), moment)
    elif rule == "STEP" or moment.fraction == 0.0:
        value = row(k)
    elif rotates:
        value = slerp(row(k), row(k + 1), moment.fraction)
    else:
        value = linear(row(k), row(k + 1), moment.fraction)
    return normalized(value) if rotates else value
