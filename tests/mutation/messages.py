"""Leaves the words of messages alone: they say the same in another case, or between two marks."""

from collections.abc import Iterable, Iterator
from typing import Any

import libcst
from mutmut.mutation import mutators


def leave() -> None:
    """Has mutmut change no text with a space in it, from now on."""
    operators: Any = mutators.mutation_operators
    place = operators.index((libcst.BaseString, mutators.operator_string))
    operators[place] = (libcst.BaseString, _of_one_word)


def _of_one_word(node: libcst.BaseString) -> Iterator[libcst.BaseString]:
    changed: Iterable[libcst.BaseString] = mutators.operator_string(node)
    if not isinstance(node, libcst.SimpleString) or " " not in node.value:
        yield from changed
