"""The compilation of every kernel, and the cache of the results.

numba recognizes a stale result by the size and the time of the one file that contains the function.
That is not enough here: kernels call kernels in other files, and a wheel gives every release the
same times. So each release keeps its results in its own folder, named after the sources of all
kernels.
"""

import logging
import os
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba import config, njit
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from statemaint.codec.compression import lzf


def compiled(function: Callable[..., Any]) -> Any:
    """Returns a function compiled at its first call, to run without the GIL.

    The result is kept below `NUMBA_CACHE_DIR`, or below the user's cache folder. Where neither is
    writable, each process compiles again, which takes seconds.
    """
    place = _place()
    if place is None:
        _say("and where nothing can be kept, every process does so again; let it write below "
             "NUMBA_CACHE_DIR")  # fmt: skip
        return njit(nogil=True)(function)
    before, config.CACHE_DIR = config.CACHE_DIR, str(place)
    try:
        found = njit(nogil=True, cache=True)(function)
        if isinstance(getattr(found, "_cache", None), FunctionCache):
            found._cache = _QuickCache(function)  # noqa: SLF001 -- numba has no other way
        return found
    finally:
        config.CACHE_DIR = before


_log = logging.getLogger(__name__)

# What was compiled calls numba's runtime, which numba may one day begin in another way.
_TRIED = frozenset((0, minor) for minor in range(63, 69))


class _QuickCache(FunctionCache):  # type: ignore[misc]
    """A cache of compiled functions that loads one without what only a compilation needs."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Returns what was compiled for some types; `None` where nothing was."""
        if numba.version_info.short in _TRIED:
            target_context = _Unrefreshed(target_context)
        found = super().load_overload(sig, target_context)
        if found is None:
            _say("and keeps the result for all runs of this release")
        return found


class _Unrefreshed:
    """numba's context, which is not asked to load the registries of all that it can compile.

    That takes longer than the rest of a small fold. A compilation does so itself.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def refresh(self) -> None:
        """Loads nothing but numba's runtime, which is linked to what was compiled."""
        rtsys.initialize(self._context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


@cache
def _say(what: str) -> None:
    _log.warning("statemaint compiles its loops, which takes some seconds, %s", what)


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
