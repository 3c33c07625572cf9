"""The texts on a run for an operator: what was done, what is broken, what to do next. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from statemaint.airflow.texts import size
from statemaint.model.findings import FindingCode
from statemaint.wording import command, counted

# Airflow's notes hold a thousand characters.
_MOST_CHARACTERS = 1000
_RUNBOOK = "docs/runbook.md"

# Another build may have found what this one has no code for.
_PASSING = frozenset(code for code in FindingCode if code.about.passes)
_ADVISED = frozenset(code for code in FindingCode if code.about.advised)
_DONE = ("snapshots", "files", "bytes")

Json = dict[str, Any]


def steps(findings: Sequence[Json], checkpoint: str) -> list[Json]:
    """Returns the steps for findings: for each code its runbook entry and the exact command."""
    by_code: dict[str, Json] = {}
    for finding in findings:
        code = finding["code"]
        if finding["damage"] or code in _ADVISED:
            by_code.setdefault(
                code, {"code": code, "detail": finding["detail"], **_step(finding, checkpoint)}
            )
    return list(by_code.values())


def is_damaged(broken: Iterable[Json]) -> bool:
    """Returns whether a checkpoint is damaged, not just blocked by its storage or the query."""
    return any(one["code"] not in _PASSING for one in broken)


def _step(finding: Json, checkpoint: str) -> Json:
    step = command("doctor" if finding["damage"] else "scan", checkpoint)
    if finding["code"] in _PASSING:
        step = command("maintain", checkpoint, "--dry-run")
    return {"runbook": f"{_RUNBOOK}#{finding['code'].lower()}", "command": step}


def dry_note(counts: Mapping[str, Any], findings: Sequence[Json], file: str | None) -> str:
    lines = [f"DRY RUN, nothing was changed. {_counted(counts, would=True)}"]
    lines += [f"DRY RUN: {one}" for one in (*_scope(counts), *_withheld(counts))]
    if file:
        lines.append(f"DRY RUN: the whole plan is in {file}")
    return cut([*lines, *_broken(findings)])


def note(extra: Mapping[str, Any]) -> str:
    lines = _scope(extra)
    if extra["failure"]:
        lines.append(f"Nothing was maintained: {extra['failure']}")
    else:
        lines.append(_counted(extra, would=False))
    if emptied := extra.get("trash_files_deleted"):
        bytes_deleted = size(extra["trash_bytes_deleted"])
        lines.append(
            f"{counted(emptied, 'expired file')} deleted from the trash ({bytes_deleted})."
        )
    lines += _withheld(extra)
    if extra["without_report"]:
        silent = counted(extra["without_report"], "task")
        lines.append(f"{silent} gave no report; the logs say why.")
    lines += _broken(extra["broken"])
    lines += [f"Next: `{one['command']}`, {one['runbook']}" for one in extra["todo"]]
    return cut(lines)


def note_of_queries(reports: Mapping[str, Json]) -> str:
    failed = {name: one for name, one in reports.items() if not one["success"]}
    sums = {key: sum(one.get(key, 0) for one in reports.values()) for key in _DONE}
    done = (
        f"{counted(len(reports), 'query', 'queries')}, {len(failed)} failed: "
        f"{counted(sums['snapshots'], 'snapshot')} written, "
        f"{counted(sums['files'], 'file')} deleted ({size(sums['bytes'])})."
    )
    lines = [done, *(f"{name}: {' '.join(one['note'].split())}" for name, one in failed.items())]
    return cut(lines)


def _scope(extra: Mapping[str, Any]) -> list[str]:
    scope = extra.get("scope")
    return [f"Only {scope}, as set in the form."] if scope else []


def _counted(counts: Mapping[str, Any], *, would: bool) -> str:
    verb = "would be " if would else ""
    if not (counts["snapshots"] or counts["files"]):
        return (
            "Nothing would be written or deleted." if would else "Nothing was written or deleted."
        )
    return (
        f"{counted(counts['snapshots'], 'snapshot')} {verb}written, "
        f"{counted(counts['files'], 'file')} {verb}deleted "
        f"({size(counts['bytes'])}), up to version {counts['target']}."
    )


def _withheld(counts: Mapping[str, Any]) -> list[str]:
    return [f"{one}." for one in counts.get("withheld", ())]


def _broken(findings: Iterable[Json]) -> list[str]:
    return [f"Broken: {one['code']}: {one['detail']}" for one in findings if one["damage"]]


def cut(lines: Sequence[str]) -> str:
    """Returns lines as a note, which Airflow limits in its length."""
    text = "\n\n".join(lines)
    if len(text) <= _MOST_CHARACTERS:
        return text
    return text[: _MOST_CHARACTERS - 4].rstrip() + " ..."
