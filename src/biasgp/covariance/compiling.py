"""Functions compiled by numba, which is imported when there is something to compile: that takes half a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """The function, compiled: once for all processes, or, where numba has no folder to keep it in, once in each.

    It keeps it beside the source, or else in the user's home; a container may let it write to neither.
    """
    from numba import njit

    def with_cache(cache: bool) -> Function:
        made: Function = njit(cache=cache, nogil=True, error_model="numpy", **options)(function)
        return made

    try:
        return with_cache(True)
    except RuntimeError:
        return with_cache(False)
