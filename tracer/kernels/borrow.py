"""Arrays without reference counts, for kernels.

Numba counts references whenever it takes an array out of a tuple, with atomic instructions: measured, two
thirds of the time of shading a point, and threads that share a scene would fight over the counters. Who
calls a kernel keeps the arrays alive, so the kernel may drop the counters' addresses; LLVM then removes
every operation on them, wherever it sees the tuple being made.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

from numba.core import cgutils, types
from numba.extending import intrinsic

Value = TypeVar("Value")


class Borrow(Protocol):
    def __call__(self, value: Value, /) -> Value: ...


def _borrowed(typing_context: Any, value: Any) -> Any:
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _drop(context, builder, signature.return_type, arguments[0])

    return value(value), generate


borrowed = cast(Borrow, intrinsic(_borrowed))
"""The same array or (nested) tuple of arrays, owned by nobody. Valid while the argument's owner lives."""


def _drop(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = cgutils.create_struct_proxy(kind)(context, builder, value=value)
        array.meminfo = context.get_constant_null(types.MemInfoPointer(types.voidptr))
        array.parent = context.get_constant_null(types.pyobject)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind
        for index, part in enumerate(parts.types):
            old = builder.extract_value(value, index)
            value = builder.insert_value(value, _drop(context, builder, part, old), index)
    return value
