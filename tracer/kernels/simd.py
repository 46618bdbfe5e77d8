"""Eight floats at once. LLVM does not make vector code of a loop over eight boxes by itself: measured, 2.5x.

A Float8 adds, subtracts and multiplies lane by lane, rounding as each lane alone would, so that processors
with narrower registers give the same bytes. Comparisons give a bit mask, lane 0 in the lowest bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from numpy.typing import NDArray

LANES = 8
VECTOR = ir.VectorType(ir.FloatType(), LANES)
INDEX = ir.IntType(32)


class Float8:
    """What type checkers see of the type; kernels only."""

    def __add__(self, other: Float8) -> Float8: ...  # type: ignore[empty-body]
    def __sub__(self, other: Float8) -> Float8: ...  # type: ignore[empty-body]
    def __mul__(self, other: Float8) -> Float8: ...  # type: ignore[empty-body]


class Float8Type(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Float8")


float8 = Float8Type()


@register_model(Float8Type)
class Float8Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _operator(function: Any, instruction: str) -> None:
    @infer_global(function)
    class Template(AbstractTemplate):
        def generic(self, arguments: Any, keywords: Any) -> Any:
            return signature(float8, float8, float8) if arguments == (float8, float8) else None

    @lower_builtin(function, float8, float8)
    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)


for _function, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _operator(_function, _instruction)


def _choose(comparison: str) -> Any:
    """Lane by lane the first argument where it compares so to the second, else the second."""

    @intrinsic
    def choose(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, *arguments), *arguments)

        return float8(float8, float8), generate

    return choose


minimum: Callable[[Float8, Float8], Float8] = _choose("<")
maximum: Callable[[Float8, Float8], Float8] = _choose(">")


@intrinsic
def _least(typing_context: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR, VECTOR])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.minnum.v{LANES}f32")
        return builder.call(function, arguments, fastmath=("nnan",))

    return float8(float8, float8), generate


least = cast(Callable[[Float8, Float8], Float8], _least)
"""`minimum` of numbers that are no NaN, for what is put back where it came from: of a choice LLVM makes a
masked store there, which costs some processors twenty times as much."""


@intrinsic
def _at_most(typing_context: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        lanes = builder.fcmp_ordered("<=", *arguments)
        return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(float8, float8), generate


at_most = cast(Callable[[Float8, Float8], int], _at_most)
"""The mask of the lanes in which a <= b; never those with a NaN."""


@intrinsic
def _absolute(typing_context: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, kind, f"llvm.fabs.v{LANES}f32"), arguments
        )

    return float8(float8), generate


absolute = cast(Callable[[Float8], Float8], _absolute)


@intrinsic
def _splat(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), arguments[0], INDEX(0))
        zeros = ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES)
        return builder.shuffle_vector(one, one, zeros)

    return float8(types.float32), generate


splat = cast(Callable[[np.float32], Float8], _splat)
"""The same number in every lane."""


@intrinsic
def _load(typing_context: Any, values: Any, first: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), VECTOR.as_pointer())
        return builder.load(place, align=4)

    return float8(values, types.int64), generate


load = cast(Callable[[NDArray[np.float32], int], Float8], _load)
"""values[first : first + 8] of a C-contiguous array as if it were flat. Nothing checks the bounds."""


@intrinsic
def _store(typing_context: Any, places: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.bitcast(arguments[0], VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(places, float8), generate


store = cast(Callable[[Any, Float8], None], _store)
"""Puts the lanes into the first eight places of a local_array."""


@intrinsic
def _put(typing_context: Any, values: Any, first: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), VECTOR.as_pointer())
        builder.store(arguments[2], place, align=4)
        return context.get_dummy_value()

    return types.void(values, types.int64, float8), generate


put = cast(Callable[[NDArray[np.float32], int, Float8], None], _put)
"""values[first : first + 8] = the lanes, as `load` reads them. Nothing checks the bounds."""


@intrinsic
def _swapped_halves(typing_context: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        order = [(lane + LANES // 2) % LANES for lane in range(LANES)]
        return builder.shuffle_vector(
            arguments[0], arguments[0], ir.Constant(ir.VectorType(INDEX, LANES), order)
        )

    return float8(float8), generate


swapped_halves = cast(Callable[[Float8], Float8], _swapped_halves)
"""Lanes 4 to 7, then lanes 0 to 3."""


@intrinsic
def _first_three(typing_context: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        lanes = [builder.extract_element(arguments[0], INDEX(lane)) for lane in range(3)]
        return context.make_tuple(builder, sig.return_type, lanes)

    return types.UniTuple(types.float32, 3)(float8), generate


first_three = cast(Callable[[Float8], tuple[np.float32, np.float32, np.float32]], _first_three)


@intrinsic
def _flat(typing_context: Any, values: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, arguments[0])
        return builder.load(builder.gep(array.data, [arguments[1]]))

    return values.dtype(values, types.int64), generate


flat = cast(Callable[[NDArray[Any], int], Any], _flat)
"""One element of a C-contiguous array as if it were flat, without the multiplications by strides that Numba
makes for each dimension. Nothing checks the bounds."""


@intrinsic
def _lowest_bit(typing_context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


lowest_bit = cast(Callable[[int], int], _lowest_bit)
"""The number of the lowest bit that is set; the mask must not be 0."""


@intrinsic(prefer_literal=True)
def _local_array(typing_context: Any, kind: Any, size: Any) -> Any:
    element, count = kind.dtype, size.literal_value

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return cgutils.alloca_once(builder, context.get_value_type(element), count)

    return types.CPointer(element)(kind, size), generate


local_array: Any = _local_array
"""local_array(np.float32, 640): an array on the stack, which np.empty would put on the heap."""
