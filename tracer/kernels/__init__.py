"""The only Numba code. Every kernel is a static function of a module: closures would compile again in
every process, cache or not.

No fastmath, no parallel, no transcendental of libm: their bytes differ between machines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tracer import engine

engine.configure()

from numba import njit  # noqa: E402  must see what configure() has set

Function = TypeVar("Function", bound=Callable[..., Any])


def entry(function: Function) -> Function:
    """A kernel that Python calls: cached on disk, and it releases the GIL.

    One that takes arrays out of tuples borrows them first (tracer.kernels.borrow).
    """
    return _compiled(function, cache=True)


def inlined(function: Function) -> Function:
    """A function that becomes part of each kernel that calls it: small, or called in one place only."""
    return _compiled(function, no_cfunc_wrapper=True, forceinline=True)


def device(function: Function) -> Function:
    """A function of its own, called from kernels. One that is given arrays borrows them first."""
    return _compiled(function, no_cfunc_wrapper=True)


def _compiled(function: Function, **options: Any) -> Function:
    decorate: Any = njit(nogil=True, error_model="numpy", **options)
    compiled: Function = decorate(function)
    return compiled


def in_python(function: Function) -> Function:
    """The same function run by the interpreter: the same bytes, and nothing is compiled for it."""
    plain: Function = function.py_func  # type: ignore[attr-defined]
    return plain
