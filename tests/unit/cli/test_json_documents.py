"""Every document of every verb is as it is declared, and docs/json.md is made from that."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import click
import jsonschema
import pytest

from statemaint.cli.main import VERBS as NAMES
from statemaint.cli.main import program
from statemaint.cli.output import Settings, in_force
from statemaint.cli.queries import _say
from statemaint.codec.rows.types import AtomicType, Field, StructType
from statemaint.model.verdict import Verdict
from statemaint.records.runs import TREND
from statemaint.report.trend import Point, Trend
from statemaint.storage import LocalStorage
from tests.support.checkpoints import NOW, delta_bytes, snapshot_bytes, state_at, write_checkpoint
from tests.support.declared import Seen, labels, problems
from tests.support.event_logs import restart_log
from tests.support.paths import ROOT
from tests.support.program import run
from tests.support.savepoints import savepoint_on_disk
from tests.support.unsafe_rows import row
from tests.unit.cli.test_show import unpacked
from tools.json_documents.catalogue import VERBS, everything, named_in
from tools.json_documents.kinds import Either, JsonObject
from tools.json_documents.page import page, schema
from tools.json_documents.shared import ERROR

TIGHT = "--min-deltas-for-snapshot 5 --min-batches-to-retain 2 --grace 0s --trash-for 1d"
LOOKS = (
    "scan ROOT", f"plan ROOT {TIGHT}", "verify ROOT --deep", "verify ROOT", "doctor ROOT",
    "doctor ROOT --deep", "digest ROOT", "show ROOT", "diff ROOT", "stats ROOT", "repair ROOT",
    "rollback ROOT --to-batch 9", f"maintain ROOT {TIGHT} --dry-run", "runs ROOT",
    "savepoint ROOT DEST --dry-run --partition-size 1KB",
    "pin ROOT --batch 10 --for 7d", "pins ROOT",
    f"plan ROOT {TIGHT} --max-seconds-per-run 1h",
)  # fmt: skip
DIFFS = ("diff ROOT --from 5 --to 11", "diff ROOT --from 0")
MANY = (
    "scan FOLDER",
    "doctor FOLDER",
    "verify FOLDER",
    "stats FOLDER",
    "maintain FOLDER --dry-run",
)
DECLARED = {one.name: Either((*one.documents, ERROR)) for one in VERBS}
QUERIES = "queries: {a: {checkpoint: /a, pool: big, executor: Far, enabled: false}, b: {x: 1}}"


class Printed(NamedTuple):
    """A document that a call has printed."""

    call: str
    document: Any

    @property
    def verb(self) -> str:
        return self.call.split()[0]


def printed(call: str, **places: str) -> Printed:
    words = [places.get(one, one) for one in call.split()]
    return Printed(call, json.loads(run(*words, "--json").stdout))


def carried_out(plan: Printed, file: Path) -> Printed:
    file.write_text(json.dumps(plan.document))
    return printed("apply PLAN", PLAN=str(file))


def recovered(root: str, call: str, file: Path) -> Iterator[Printed]:
    """Yields a recovery as a plan, as it is applied, as a run, and on its way back."""
    plan = printed(call, ROOT=root)
    done = carried_out(plan, file)
    yield from (plan, done, *undone(root, done.document["run"], file))


def undone(root: str, run_id: str, file: Path) -> Iterator[Printed]:
    """Yields a run, its undo as a plan, as it is applied, and again as a run."""
    yield printed("runs ROOT RUN", ROOT=root, RUN=run_id)
    plan = printed("undo ROOT RUN --dry-run", ROOT=root, RUN=run_id)
    back = carried_out(plan, file)
    yield from (plan, back, printed("runs ROOT RUN", ROOT=root, RUN=back.document["undo"]))
    yield printed("runs ROOT", ROOT=root)


def maintained(root: str, file: Path) -> Iterator[Printed]:
    """Yields a run of maintenance, by itself and of a plan, and the run's undo."""
    plan = printed(f"plan ROOT {TIGHT}", ROOT=root)
    done = carried_out(plan, file)
    yield from (plan, done, *undone(root, done.document["run"], file))
    yield printed(f"maintain ROOT {TIGHT}", ROOT=root)
    yield printed("runs ROOT", ROOT=root)


def written_anew(root: Path, rows: int) -> str:
    """Returns a checkpoint each of whose changes adds as many rows and removes none."""
    unpacked("dedup-within-watermark", root)
    key, value = (StructType((Field("", AtomicType(name)),)) for name in ("string", "long"))
    for file in (*root.rglob("state/0/*/*.delta"), *root.rglob("state/0/*/*.snapshot")):
        added = [(row(key, [f"{file.stem} {one}"]), row(value, [7])) for one in range(rows)]
        file.write_bytes(delta_bytes(added))
    return str(root)


def neglected(root: Path, *, lost: str = "", spoilt: str = "") -> str:
    """Returns a checkpoint of one store without a snapshot, a delta of which may be damaged."""
    root.mkdir()
    write_checkpoint(LocalStorage(root), partitions=1)
    if lost:
        (root / lost).unlink()
    if spoilt:
        (root / spoilt).write_bytes(b"nothing of the kind")
    return str(root)


def by_history(root: Path) -> Iterator[Printed]:
    """Yields what depends on past restarts of a query, and on its past runs."""
    logs = root.parent.parent / "logs"
    logs.mkdir()
    (logs / "app-1").write_bytes(restart_log(25, time.time() + 60, 9.0))
    yield printed("doctor ROOT --event-log LOGS", ROOT=str(root), LOGS=str(logs))
    hourly = Trend(tuple(Point(3600.0 * hour, Verdict.HEALTHY) for hour in range(3)))
    (root / TREND).write_text(json.dumps(hourly.to_json()))
    yield printed("policy ROOT --request-price 5", ROOT=str(root))


def damaged_copy(root: Path, to: Path) -> str:
    shutil.copytree(root, to)
    (to / "state/0/1/left-keyToNumValues/9.delta").write_bytes(b"LZ4Block")
    return str(to)


def repairable(root: Path) -> str:
    """Returns a checkpoint with a cut snapshot and a checksum of another file."""
    root.mkdir()
    write_checkpoint(LocalStorage(root))
    (root / "state/0/0/20.snapshot").write_bytes(snapshot_bytes(state_at(20))[:50])
    (root / "state/0/1/24.delta.crc").write_bytes(b'{"algorithm":"CRC32C","value":1}')
    return str(root)


def checkpoints(folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields checkpoints of all kinds, each with the calls that look at it."""
    join = unpacked("join2", folder / "join")
    yield str(join), LOOKS
    yield damaged_copy(join, folder / "damaged"), LOOKS
    yield str(unpacked("rocks-timed", folder / "rocks")), LOOKS
    yield str(unpacked("rocks-expiring", folder / "expiring")), ("stats ROOT", "show ROOT")
    yield str(unpacked("rocks-join4", folder / "entries")), ("show ROOT", *DIFFS)
    yield written_anew(folder / "empty", 0), ("stats ROOT", "diff ROOT")
    yield written_anew(folder / "growing", 1), ("stats ROOT", *DIFFS)
    yield neglected(folder / "lost", lost="state/0/0/25.delta"), ("doctor ROOT", "scan ROOT")
    yield neglected(folder / "spoilt", spoilt="state/0/0/22.delta"), ("doctor ROOT",)
    yield neglected(folder / "old", spoilt="state/0/0/20.snapshot"), ("doctor ROOT",)
    yield str(unpacked("rocks-zips", folder / "zips")), ("stats ROOT", "diff ROOT", "scan ROOT")
    LocalStorage(folder / "zips").write("_statemaint/pins/other", [b"{"])
    yield str(folder / "zips"), ("pins ROOT", "scan ROOT", "plan ROOT")
    held = unpacked("rocks-aggregation-maintained", folder / "held")
    yield str(held), ("plan ROOT --min-deltas-for-snapshot 1",)
    condemned = neglected(folder / "condemned")
    (Path(condemned) / "state/0/0/.25.snapshot.crc").write_bytes(b"of a snapshot that is missing")
    yield condemned, (f"plan ROOT {TIGHT}",)
    lonely = unpacked("aggregation2", folder / "lonely")
    shutil.rmtree(lonely / "commits")
    yield str(lonely), LOOKS
    yield str(folder / "none"), LOOKS
    strange = unpacked("aggregation2", folder / "strange")
    for file in (strange / "offsets").iterdir():
        if file.name.isdecimal():
            file.write_text(file.read_text().replace("lz4", "gzip"))


def bootstrapped(folder: Path) -> Iterator[Printed]:
    """Yields rows that are put back, nowhere, in another folder and in place, and the run."""
    root, file = str(unpacked("aggregation2", folder / "ck")), str(folder / "rows.parquet")
    run("show", root, "--format", "parquet", "--output", file)
    for flags in (" --dry-run", f" --to {folder / 'dest'}", ""):
        done = printed(f"bootstrap ROOT FILE{flags}", ROOT=root, FILE=file)
        yield done
    yield printed("runs ROOT RUN", ROOT=root, RUN=done.document["run"])
    yield printed("runs ROOT", ROOT=root)


def savepoints(folder: Path) -> Iterator[Printed]:
    """Yields a folder of savepoints as it is listed, and as those that expire are deleted."""
    for number in range(3):
        savepoint_on_disk(folder / str(number), ended=NOW + number)
    (folder / "0/notes.txt").write_text("of an operator")
    (folder / "2/_statemaint/savepoint.json").write_text("of another kind")
    rules = ("", " --keep last=1,weekly=1", " --keep last=1 --delete")
    for call in (f"savepoints FOLDER{one}" for one in rules):
        yield printed(call, FOLDER=str(folder))
    savepoint_on_disk(folder / "3", ended=None)
    yield printed("savepoints FOLDER", FOLDER=str(folder))


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Printed]:
    """Returns documents of every verb, of healthy, damaged and impossible checkpoints."""
    folder, file = tmp_path_factory.mktemp("many"), tmp_path_factory.mktemp("plans") / "plan.json"
    dest = str(folder.parent / "savepoint")
    found = [
        printed(call, ROOT=root, DEST=dest) for root, calls in checkpoints(folder) for call in calls
    ]
    found.append(printed("savepoint ROOT DEST", ROOT=str(folder / "join"), DEST=dest))
    found += [printed(call, FOLDER=str(folder)) for call in MANY]
    found += [
        printed(f"policy ROOT{flags}", ROOT=str(folder / kind))
        for kind, flags in (("join", ""), ("join", " --restart-within 1s"), ("lonely", ""))
    ]
    found += maintained(neglected(folder / "neglected"), file)
    found += by_history(folder / "neglected")
    found.append(printed("repair ROOT --apply", ROOT=str(folder / "lonely")))
    for kind in ("join", "damaged", "rocks"):
        found.append(
            printed(f"maintain ROOT {TIGHT} --max-seconds-per-run 1h", ROOT=str(folder / kind))
        )
    found += recovered(str(folder / "join"), "rollback ROOT --to-batch 11", file)
    found += recovered(repairable(folder / "repairable"), "repair ROOT", file)
    root = repairable(folder / "again")
    found += [printed("repair ROOT --apply", ROOT=root), printed("repair ROOT --apply", ROOT=root)]
    found += savepoints(tmp_path_factory.mktemp("savepoints"))
    found += bootstrapped(tmp_path_factory.mktemp("bootstrapped"))
    entries = (f"{name}: {{checkpoint: {folder / name}}}" for name in ("join", "nowhere"))
    file.write_text(f"queries: {{{', '.join(entries)}}}")
    found.append(printed("maintain --queries FILE --dry-run", FILE=str(file)))
    file.write_text(QUERIES)
    with redirect_stdout(StringIO()) as said, in_force(Settings(as_json=True)):
        _say("http://localhost:9808")
    found.append(Printed("exporter", json.loads(said.getvalue())))
    found += [printed("queries FILE list", FILE=str(file)), printed("queries none validate")]
    return found


def test_every_document_is_as_it_is_declared(documents: list[Printed]) -> None:
    found = [(one.call, problems(DECLARED[one.verb], one.document, set())) for one in documents]
    assert [(call, wrong) for call, wrong in found if wrong] == []
    assert {next(iter(one.document)) for one in documents} == {"format"}


def test_every_document_begins_with_its_format(documents: list[Printed]) -> None:
    assert {next(iter(one.document.items())) for one in documents} == {("format", 1)}


def test_every_document_follows_the_schema(documents: list[Printed]) -> None:
    published = json.loads((ROOT / "docs/json.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(published)
    for one in documents:
        of_verb = {**published, "anyOf": [{"$ref": f"#/$defs/{one.verb}"}]}
        jsonschema.Draft202012Validator(of_verb).validate(one.document)


_ESTIMATE = "an estimate, which earlier versions made; documents keep their fields"
UNSEEN = {
    ("longest chain", "seconds (number)"): _ESTIMATE,
    ("one checkpoint diagnosed", "restart_estimate (restart estimate)"): _ESTIMATE,
    **{
        ("restart estimate", field): _ESTIMATE
        for field in ("bytes", "bytes_per_second", "slots", "seconds_at_least")
    },
    ("notice", "store (null)"): "an operator of which one partition has thousands of rows",
    ("shape of a checkpoint", "partitions (null)"): "a query that began before Spark 2.3",
    ("written snapshot", "attestation (null)"): "a repair reads every snapshot back",
}
"""What no document above has, each with the reason."""


def test_every_declared_field_is_in_some_document_with_each_of_its_types(
    documents: list[Printed],
) -> None:
    seen: Seen = set()
    for one in documents:
        problems(DECLARED[one.verb], one.document, seen)
    objects = (one for one in everything() if isinstance(one, JsonObject))
    declared = {
        (one.name, label) for one in objects for field in one.fields for label in labels(field)
    }
    assert declared - seen == UNSEEN.keys()


def test_lines_are_the_document_without_its_list_and_then_the_list(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    root = str(unpacked("join2", folder / "one"))
    run_id = printed(f"maintain ROOT {TIGHT}", ROOT=root).document["run"]
    extra = {"one run": [run_id]}
    for verb in VERBS:
        for declared in (one for one in verb.documents if one.lines):
            where = str(folder) if declared.name.startswith("many ") else root
            call = [verb.name, where, *extra.get(declared.name, [])]
            head, *rows = map(json.loads, run(*call, "--json-lines").stdout.splitlines())
            whole = json.loads(run(*call, "--json").stdout)
            steady = ("now", "fingerprint")
            assert rows == whole.pop(declared.lines)
            assert all(head[name] == one for name, one in whole.items() if name not in steady)


def test_the_verbs_with_json_are_those_that_are_declared() -> None:
    context = click.Context(program)
    with_json = {
        name
        for name in NAMES
        for option in (program.get_command(context, name) or program).params
        if "--json" in option.opts
    }
    assert with_json == {one.name for one in VERBS}


def test_a_verb_has_lines_where_they_are_declared() -> None:
    context = click.Context(program)
    for verb in VERBS:
        options = [one.opts for one in (program.get_command(context, verb.name) or program).params]
        assert (["--json-lines"] in options) == any(one.lines for one in verb.documents)


def test_a_name_means_one_thing() -> None:
    named = [*everything(), *named_in(ERROR)]
    names = {one.name: one for one in named}
    assert all(names[one.name] == one for one in named)
    assert not names.keys() & {one.name for one in VERBS}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"more": 1}, ".more is not declared"),
        ({"version": "1"}, ".version: '1' is no integer"),
        ({"version": True}, ".version: True is no integer"),
        ({"stores": {}}, ".stores: dict in place of ListOf"),
        ({"stores": [{"operator": 0}]}, ".stores[0].partition is missing"),
    ],
)
def test_a_document_that_departs_is_found(change: dict[str, Any], problem: str) -> None:
    good = {"format": 1, "checkpoint": "/c", "version": 3, "stores": []}
    declared = next(one for one in VERBS if one.name == "digest").documents[0]
    assert problems(declared, good, set()) == []
    assert problem in problems(declared, {**good, **change}, set())


def test_the_page_is_made_from_the_declarations() -> None:
    assert (ROOT / "docs/json.md").read_text() == page(), "run `make generated`"


def test_the_schema_is_made_from_the_declarations() -> None:
    published = json.loads((ROOT / "docs/json.schema.json").read_text())
    assert published == schema(), "run `make generated`"
