"""The first example of a property compiles its kernel, so that no deadline would say anything."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")
