"""What stands in place of each mutated function: it calls the original, or the mutant of a process.

mutmut's own asks the environment at every call, which takes longer than most functions do.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from mutmut.mutation import trampoline
from mutmut.utils.format_utils import mangled_name_from_mutant_name

_CHOSEN = "_mutmut_orig"
Function = Callable[..., Any]


class _Look:
    """Which functions are called, as long as somebody looks."""

    calls: set[Function] | None = None


def install() -> None:
    """Has the modules that are imported from now on switch this way."""
    trampoline.wrap_in_trampoline = _switch  # type: ignore[assignment]


def choose(mutant: str) -> None:
    """Puts a mutant in place of its function, for good."""
    module, _, name = mutant.rpartition(".")
    function = name.rpartition("_")[0]
    mutants = getattr(sys.modules[module], f"mutants_{function}")
    mutants[_CHOSEN] = mutants[name]


def look() -> None:
    """Begins to note which functions are called, anew."""
    _Look.calls = set()


def seen() -> set[str]:
    """Returns the functions that were called since `look`, by mutmut's names."""
    return {
        f"{one.__module__}.{mangled_name_from_mutant_name(one.__name__)}"
        for one in _Look.calls or ()
    }


def _switch(mutants: dict[str, Any], is_classmethod: bool = False) -> Callable[[Any], Any]:  # noqa: FBT001, FBT002 -- as mutmut calls it
    def decorated(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            chosen = mutants[_CHOSEN]
            if _Look.calls is not None:
                _Look.calls.add(getattr(chosen, "__func__", chosen))
            return chosen(*args, **options)

        @wraps(function)
        def call_class(cls: Any, *args: Any, **options: Any) -> Any:
            name = mutants[_CHOSEN].__name__
            if _Look.calls is not None:
                _Look.calls.add(mutants[_CHOSEN].__func__)
            return getattr(cls, name)(*args, **options)

        return call_class if is_classmethod else call

    return decorated
