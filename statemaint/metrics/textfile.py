"""Writes metrics as files for node_exporter's textfile collector: one for each query."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from prometheus_client import write_to_textfile
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from statemaint.metrics.catalogue import BY_NAME
from statemaint.metrics.families import registry_of
from statemaint.metrics.options import Named


def write_textfile(families: Iterable[Family], *, query: str, folder: Path) -> None:
    """Replaces a query's file; missing families keep their last value, as in a push.

    Raises:
        OSError: when the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, given = folder / f"statemaint_{query}.prom", [*families]
    names = {one.name for one in given}
    kept = [one for one in _before(file) if one.name not in names and _is_ours(one)]
    write_to_textfile(str(file), registry_of([*given, *kept]))


def replace_task_textfile(
    folder: Path, group: Mapping[str, str], families: Sequence[Family]
) -> None:
    """Replaces the file of a task; deletes it if there are no families.

    Raises:
        OSError: when the folder cannot be written to.
    """
    # No query's name has an `@`, so that no file of a query has this name.
    origin = quote(group.get("origin", ""), safe="")
    file = folder / f"statemaint_{group['query']}@{group['task']}@{origin}.prom"
    if families:
        folder.mkdir(parents=True, exist_ok=True)
        write_to_textfile(str(file), registry_of(families))
    else:
        file.unlink(missing_ok=True)


def remove_textfiles(folder: Path, named: Named, *, known: frozenset[str]) -> list[str]:
    """Deletes the files of an installation's missing queries, and returns their names.

    Raises:
        OSError: when the folder cannot be read or written to.
    """
    removed, ours = set[str](), {named.origin, named.former or named.origin}
    for file in sorted(folder.glob("statemaint_*.prom")):
        queries = {label["query"] for label in _info(file) if label.get("origin") in ours}
        if queries and not queries & known:
            file.unlink(missing_ok=True)
            removed |= queries
    return sorted(removed)


def _info(file: Path) -> Iterator[dict[str, str]]:
    wanted = {BY_NAME["query_info"].full, BY_NAME["task_state"].full}
    for one in _before(file):
        if one.name in wanted:
            yield from (sample.labels for sample in one.samples)


def _before(file: Path) -> list[Family]:
    try:
        return list(text_string_to_metric_families(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return []


def _is_ours(family: Family) -> bool:
    name = family.name.removeprefix("statemaint_")
    found = BY_NAME.get(name) or BY_NAME.get(f"{name}_total")
    return found is not None and not name.startswith("partition_")
