"""Writes metrics as files for node_exporter's textfile collector: one for each query."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path
from urllib.parse import quote

from prometheus_client import write_to_textfile
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from statemaint.metrics.catalogue import BY_FAMILY, BY_NAME, Detail
from statemaint.metrics.families import registry_of
from statemaint.metrics.options import Named


def write_textfile(families: Iterable[Family], *, named: Named, folder: Path) -> None:
    """Replaces a query's file; missing families keep their last value, as in a push.

    Its file of an earlier build, which had no origin in its name, is deleted, and so is the one of
    its former origin.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, given = folder / _file(named.query, named.origin), [*families]
    unnamed = folder / _file(named.query, "")
    others = {unnamed, folder / _file(named.query, named.former)} - {file}
    origins = {label.get("origin", "") for label in _info(unnamed)}
    earlier = [path for path in others if path != unnamed or origins & _ours(named)]
    names = {family.name for family in given}
    before = _before(file) or (_before(unnamed) if unnamed in earlier else [])
    kept = [family for family in before if family.name not in names and _is_ours(family)]
    write_to_textfile(str(file), registry_of([*given, *kept]))
    for path in earlier:  # its series would be there twice
        path.unlink(missing_ok=True)


def _file(query: str, *more: str) -> str:
    """Returns the name of a query's file; no query's name has an `@`."""
    return (
        "@".join((f"statemaint_{query}", *(quote(part, safe="") for part in more if part)))
        + ".prom"
    )


def _ours(named: Named) -> set[str]:
    return {named.origin, named.former or named.origin}


def remove_task_textfiles(folder: Path, named: Named, verb: str) -> None:
    """Deletes the files of a query's tasks of one verb, whatever their number."""
    for file in folder.glob(f"{escape(f'statemaint_{named.query}@{verb}-')}*.prom"):
        if file.name.count("@") == 2 and file.stem.endswith(f"@{quote(named.origin, safe='')}"):  # noqa: PLR2004 -- as `write_task_textfile` names them
            file.unlink(missing_ok=True)


def write_task_textfile(folder: Path, group: Mapping[str, str], families: Sequence[Family]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Without an origin the name ends in `@`, by which it is a task's.
    origin = quote(group.get("origin", ""), safe="")
    file = folder / f"statemaint_{group['query']}@{group['task']}@{origin}.prom"
    write_to_textfile(str(file), registry_of(families))


def remove_textfiles(folder: Path, named: Named, *, known: frozenset[str]) -> list[str]:
    """Deletes the files of an installation's missing queries, and returns their names."""
    removed, ours = set[str](), _ours(named)
    for file in sorted(folder.glob("statemaint_*.prom")):
        queries = {label["query"] for label in _info(file) if label.get("origin") in ours}
        if queries and not queries & known:
            file.unlink(missing_ok=True)
            removed |= queries
    return sorted(removed)


def _info(file: Path) -> Iterator[dict[str, str]]:
    wanted = {BY_NAME["query_info"].full, BY_NAME["task_state"].full}
    for family in _before(file):
        if family.name in wanted:
            yield from (sample.labels for sample in family.samples)


def _before(file: Path) -> list[Family]:
    try:
        return list(text_string_to_metric_families(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return []


def _is_ours(family: Family) -> bool:
    metric = BY_FAMILY.get(family.name.removesuffix("_total"))
    return metric is not None and metric.detail is not Detail.PARTITION
