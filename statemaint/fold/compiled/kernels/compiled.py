"""The compilation of every kernel, and the cache of the results.

numba recognizes a stale result by the size and the time of the one file that contains the function.
That is not enough here: kernels call kernels in other files, and a wheel gives every release the
same times. So each release keeps its results in its own folder, named after the sources of all
kernels. A folder that exists and cannot be written, as in an image with a read-only root, is read.
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
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime import rtsys

from statemaint.codec.compression import lzf


def compiled(function: Callable[..., Any]) -> Any:
    """Returns a function compiled at its first call, to run without the GIL.

    The result is kept below `NUMBA_CACHE_DIR`, or below the user's cache folder. If neither is
    writable, the results kept there earlier are used, and each process compiles the rest again,
    which takes seconds. A result is for one kind of processor; `NUMBA_CPU_NAME=generic` makes it
    valid for any.
    """
    place = _place()
    if place is None:
        _say(_NOT_KEPT)
        return njit(nogil=True)(function)
    writable = os.access(place, os.W_OK)
    before, config.CACHE_DIR = config.CACHE_DIR, str(place)
    try:
        dispatcher = njit(nogil=True, cache=writable)(function)
        if not writable:
            dispatcher._cache = _ReadCache(function)  # noqa: SLF001 -- numba has no other way
        elif isinstance(getattr(dispatcher, "_cache", None), FunctionCache):
            dispatcher._cache = _QuickCache(function)  # noqa: SLF001
        return dispatcher
    finally:
        config.CACHE_DIR = before


_log = logging.getLogger(__name__)
_KEPT = "and keeps the result for all runs of this release"
_NOT_KEPT = (
    "and where nothing can be kept, every process does so again; let it write below NUMBA_CACHE_DIR"
)

# Compiled code calls numba's runtime, which a later numba may initialize in another way.
_TRIED = frozenset((0, minor) for minor in range(63, 69))


class _QuickCache(FunctionCache):  # type: ignore[misc]
    """A cache of compiled functions that loads one without the parts that compilation needs."""

    _on_miss = _KEPT

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if numba.version_info.short in _TRIED:
            target_context = _Unrefreshed(target_context)
        overload = super().load_overload(sig, target_context)
        if overload is None:
            _say(self._on_miss)
        return overload


class _ReadLocator(CompileResultCacheImpl._locator_classes[0]):  # type: ignore[misc] # noqa: SLF001
    """The folder of `NUMBA_CACHE_DIR`, which numba uses only if it can write there."""

    def ensure_cache_path(self) -> None:
        """Accepts the folder as it is."""


class _ReadImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_ReadLocator,)


class _ReadCache(_QuickCache):
    """A cache that was filled when an image was built, and that is only read."""

    _impl_class = _ReadImpl
    _on_miss = _NOT_KEPT

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps nothing."""


class _Unrefreshed:
    """numba's context, without the registries of everything that it can compile.

    Loading them takes longer than the rest of a small fold. A compilation does so itself.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def refresh(self) -> None:
        """Loads nothing but numba's runtime, which compiled code is linked to."""
        rtsys.initialize(self._context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


@cache
def _say(what: str) -> None:
    _log.warning("statemaint compiles its loops, which takes some seconds, %s", what)


@cache
def _place() -> Path | None:
    """Returns the folder of this release's results, created if possible."""
    below = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        place = Path(below).expanduser() / "statemaint" / fingerprint()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # read-only, or a user without a home
        return None
    return place if os.access(place, os.R_OK | os.X_OK) else None


def fingerprint() -> str:
    """Returns a name for the sources of all kernels."""
    digest = sha256()
    for source in [*sorted(Path(__file__).parent.glob("*.py")), Path(lzf.__file__)]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:20]


# LZF's two loops, compiled unchanged.
expand_lzf, pack_lzf = compiled(lzf.expand), compiled(lzf.pack)
