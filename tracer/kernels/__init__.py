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
    """A kernel that Python calls: cached on disk, and it releases the GIL."""
    compiled: Function = njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def device(function: Function) -> Function:
    """A function that only kernels call."""
    compiled: Function = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, forceinline=True)(function)
    return compiled


def inlined(function: Function) -> Function:
    """A small `device` function of inner loops, where the cost of a call would show."""
    compiled: Function = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, forceinline=True)(
        function
    )
    return compiled


def in_python(function: Function) -> Function:
    """The same function run by the interpreter: the same bytes, and nothing is compiled for it."""
    plain: Function = function.py_func  # type: ignore[attr-defined]
    return plain
