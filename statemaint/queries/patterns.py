"""One entry of the queries file that stands for several queries. Pure.

    "clicks_{region}":
      for_each: {region: [eu, us]}
      checkpoint: s3://lake/checkpoints/clicks_{region}

`{name}` is replaced in the query's name and in every text of the entry, but not in its policy.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

# An entry that stands for more is more likely a mistake.
_MOST = 1000
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KEY = "for_each"


class PatternError(ValueError):
    """A pattern that cannot be expanded; `key` is the invalid key of the entry."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key


def expand(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the queries of an entry, each with its name; the entry itself if it is not a pattern.

    The entry is not validated yet. Raises `PatternError` if its values are not lists of texts, or
    do not fit the placeholders.
    """
    if entry.get(_KEY) is None:
        yield name, dict(entry)
        return
    values = _values(entry[_KEY])
    for key in values:
        if f"{{{key}}}" not in name:
            what = f"the query's name lacks {{{key}}}, so that several queries would have one name"
            raise PatternError(_KEY, what)
    rest = {key: value for key, value in entry.items() if key != _KEY}
    for combination in product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        filled = {key: _filled_value(key, value, chosen) for key, value in rest.items()}
        yield _filled("name", name, chosen), filled


def _values(for_each: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(for_each, Mapping) or not for_each:
        raise PatternError(_KEY, "must be a mapping of names to lists of texts")
    values = {str(name): _listed(name, listed) for name, listed in for_each.items()}
    if (count := prod(map(len, values.values()))) > _MOST:
        raise PatternError(_KEY, f"stands for {count} queries; {_MOST} is the limit of one entry")
    return values


def _listed(name: object, listed: object) -> tuple[str, ...]:
    if not isinstance(listed, list) or not listed:
        raise PatternError(_KEY, f"{name} must be a list of texts with at least one element")
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in listed):
        what = f"{name} must be a list of texts (in quotes, where YAML reads one as something else)"
        raise PatternError(_KEY, what)
    return tuple(str(one) for one in listed)


def _filled_value(key: str, value: Any, chosen: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _filled(key, value, chosen)
    if isinstance(value, list):
        return [_filled(key, one, chosen) if isinstance(one, str) else one for one in value]
    return value


def _filled(key: str, text: str, chosen: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in chosen:
            names = ", ".join(chosen)
            raise PatternError(key, f"{match[0]} is not a name in for_each: {names}")
        return chosen[match[1]]

    return _PLACEHOLDER.sub(value, text)
