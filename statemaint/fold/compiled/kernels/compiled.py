"""The compilation of every kernel, and the cache of the results.

numba recognizes a stale result by the size and the time of the one file that contains the function.
That is not enough here: kernels call kernels in other files, and a wheel gives every release the
same times. So each release keeps its results in its own folder, named after the sources of all
kernels.
"""

import os
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import config, njit

from statemaint.codec.compression import lzf


def compiled(function: Callable[..., Any]) -> Any:
    """Returns a function compiled at its first call, to run without the GIL.

    The result is kept below `NUMBA_CACHE_DIR`, or below the user's cache folder. Where neither is
    writable, each process compiles again, which takes seconds.
    """
    place = _place()
    if place is None:
        return njit(nogil=True)(function)
    before, config.CACHE_DIR = config.CACHE_DIR, str(place)
    try:
        return njit(nogil=True, cache=True)(function)
    finally:
        config.CACHE_DIR = before


@cache
def _place() -> Path | None:
    """Returns the folder of this release's results, created if necessary; `None` without one."""
    below = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        place = Path(below).expanduser() / "statemaint" / fingerprint()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # read-only, or a user without a home
        return None
    return place if os.access(place, os.W_OK) else None


def fingerprint() -> str:
    """Returns a name for the sources of all kernels."""
    found = sha256()
    for source in [*sorted(Path(__file__).parent.glob("*.py")), Path(lzf.__file__)]:
        found.update(source.read_bytes())
    return found.hexdigest()[:20]
