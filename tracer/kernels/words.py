"""Eight unsigned 32-bit numbers at once, for the sampler: a bounce wants eight random numbers together.

A Word8 has + * ^ & >> lane by lane, modulo 2^32. Whole numbers: every processor gives the same.
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

from tracer.kernels.simd import INDEX, LANES

VECTOR = ir.VectorType(ir.IntType(32), LANES)


class Word8:
    """What type checkers see of the type; kernels only."""

    def __add__(self, other: Word8) -> Word8: ...  # type: ignore[empty-body]
    def __mul__(self, other: Word8) -> Word8: ...  # type: ignore[empty-body]
    def __xor__(self, other: Word8) -> Word8: ...  # type: ignore[empty-body]
    def __and__(self, other: Word8) -> Word8: ...  # type: ignore[empty-body]
    def __or__(self, other: Word8) -> Word8: ...  # type: ignore[empty-body]
    def __rshift__(self, other: Word8) -> Word8: ...  # type: ignore[empty-body]


class Word8Type(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Word8")


word8 = Word8Type()


@register_model(Word8Type)
class Word8Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _operator(function: Any, instruction: str) -> None:
    @infer_global(function)
    class Template(AbstractTemplate):
        def generic(self, arguments: Any, keywords: Any) -> Any:
            return signature(word8, word8, word8) if arguments == (word8, word8) else None

    @lower_builtin(function, word8, word8)
    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)


for _function, _instruction in (
    (operator.add, "add"),
    (operator.mul, "mul"),
    (operator.xor, "xor"),
    (operator.and_, "and_"),
    (operator.or_, "or_"),
    (operator.rshift, "lshr"),
):
    _operator(_function, _instruction)


@intrinsic
def _words(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), arguments[0], INDEX(0))
        return builder.shuffle_vector(one, one, ir.Constant(VECTOR, [0] * LANES))

    return word8(types.uint32), generate


words = cast(Callable[[np.uint32], Word8], _words)
"""The same number in every lane."""


@intrinsic
def _lane_numbers(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return ir.Constant(VECTOR, list(range(LANES)))

    return word8(), generate


lane_numbers = cast(Callable[[], Word8], _lane_numbers)
"""0, 1, ... 7."""


@intrinsic
def _odd_lanes(typing_context: Any, even: Any, odd: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        chosen = [lane + LANES * (lane % 2) for lane in range(LANES)]
        return builder.shuffle_vector(*arguments, ir.Constant(VECTOR, chosen))

    return word8(word8, word8), generate


alternating = cast(Callable[[Word8, Word8], Word8], _odd_lanes)
"""Even lanes of the first, odd lanes of the second."""


@intrinsic
def _reversed_bits(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR])
        name = f"llvm.bitreverse.v{LANES}i32"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    return word8(word8), generate


reversed_bits = cast(Callable[[Word8], Word8], _reversed_bits)
"""In each lane the lowest bit changes places with the highest, and so on."""


@intrinsic
def _units(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        wide = ir.VectorType(ir.DoubleType(), LANES)
        numbers = builder.uitofp(arguments[0], wide)
        scaled = builder.fmul(numbers, ir.Constant(wide, [2.0**-32] * LANES))
        lanes = [builder.extract_element(scaled, INDEX(lane)) for lane in range(LANES)]
        return context.make_tuple(builder, sig.return_type, lanes)

    return types.UniTuple(types.float64, LANES)(word8), generate


Eight = tuple[float, float, float, float, float, float, float, float]
units = cast(Callable[[Word8], Eight], _units)
"""The lanes as numbers in [0, 1): each divided by 2^32, exactly."""
