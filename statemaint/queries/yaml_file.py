"""A YAML file as values, and the line of each key."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from statemaint.errors import ConfigError

_MERGE = "tag:yaml.org,2002:merge"  # the key `<<`, which may appear more than once
Repeated = tuple[tuple[str, ...], int]
"""The path and the line of a repeated key of a mapping."""


class YamlError(ConfigError):
    """A file that cannot be read as YAML; `line` counts from 1 and is `None` if unknown."""

    def __init__(self, what: str, line: int | None = None) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a YAML file; of an empty one, neither value nor node."""

    value: Any
    root: yaml.Node | None
    twice: tuple[Repeated, ...]

    def line(self, path: Sequence[str | int]) -> int | None:
        """Returns the line of a key or element, or of the innermost one around it that exists."""
        node, line = self.root, None
        for step in path:
            stepped = _step(node, step) if node else None
            if stepped is None:
                break
            line, node = stepped
        return line


def parse_yaml(text: str) -> Document:
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return Document(None, None, ())
        twice = tuple(_twice(root, (), set()))
        return Document(loader.construct_document(root), root, twice)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise YamlError(str(error.problem), line) from None
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2026-13-45 is a ValueError
        raise YamlError(f"not YAML: {' '.join(str(error).split())}") from None
    except (LookupError, AttributeError):  # PyYAML's own, as for `!!bool maybe`
        raise YamlError("not YAML: a value is not of the type that its tag names") from None
    except RecursionError:
        raise YamlError("not YAML that can be read: it is nested too deeply") from None


def texts_at(path: str | Path) -> dict[str, str | YamlError]:
    """Returns the text of a file, or of each `*.yaml` and `*.yml` of a folder, by its path."""
    place = Path(path)
    try:
        if not place.is_dir():
            return {str(path): _text(place)}
        files = sorted(
            file
            for file in place.iterdir()
            if file.suffix in (".yaml", ".yml") and not file.name.startswith(".")
        )
    except OSError as error:
        raise YamlError(f"cannot be read ({error.strerror or error})") from None
    if not files:
        raise YamlError("has no file *.yaml; for no queries, write one with `queries: {}`")
    return {str(file): _text(file) for file in files}


def _text(path: Path) -> str | YamlError:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        return YamlError(f"cannot be read ({reason}); write the queries file")
    except UnicodeDecodeError as error:
        return YamlError(f"not UTF-8 text at byte {error.start}; save it as such")


def _twice(node: yaml.Node, path: tuple[str, ...], seen: set[int]) -> Iterator[Repeated]:
    """Yields the keys that appear twice; a node with several aliases is checked once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for number, element in enumerate(node.value):
            yield from _twice(element, (*path, str(number)), seen)
    elif isinstance(node, yaml.MappingNode):
        keys: set[tuple[str, Hashable]] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in keys:
                    yield (*path, key.value), key.start_mark.line + 1
                keys.add((key.tag, key.value))
            yield from _twice(value, (*path, str(key.value)), seen)


def _step(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        element: yaml.Node = node.value[step]
        return element.start_mark.line + 1, element
    if isinstance(node, yaml.MappingNode):
        # Constructing a mapping puts merged keys first, so that its own keys come last.
        for key, value in reversed(node.value):
            if key.value == str(step):
                return key.start_mark.line + 1, value
    return None
