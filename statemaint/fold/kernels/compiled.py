"""How every kernel is compiled."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Returns a function compiled at its first call, to run without the GIL.

    The result is kept on disk. Where there is no place for it (a read-only image without a home)
    each process compiles anew, which takes seconds; `NUMBA_CACHE_DIR` can name a place.
    """
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)
