"""A query is rewound by hand, or files of its log are swapped: all that we advise must end right.

Each batch's true state is arithmetic (`tests.support.summing`), and Spark's own reader is the judge
of what a checkpoint holds.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.audit import doctor, verify
from statemaint.errors import StorageError
from statemaint.maintain import list_runs, maintain
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from statemaint.workers import nothing
from tests.support.summing import PROVIDERS, RETAINED, Job, changes
from tests.unit.cli.test_program import run

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=RETAINED, grace=0, orphan_age=0)
FLAGS = (
    "--min-deltas-for-snapshot", "5", "--min-batches-to-retain", str(RETAINED), "--grace", "0s",
    "--orphan-age", "0s",
)  # fmt: skip
# After 20 batches batches 15 to 19 are taken back, and run again on input that is corrected. We
# look when the query has passed the old target by five batches, and by ten.
REWOUND, OLD, EARLY, LATE = 15, 20, 25, 30
CORRECTED = range(REWOUND, OLD)


def must_be_right(job: Job) -> None:
    assert job.wrong() == []
    assert is_healthy(job)


def is_healthy(job: Job) -> bool:
    return verify(LocalStorage(job.checkpoint), deep=True).healthy


def snapshots(job: Job, version: int) -> list[str]:
    found = (job.checkpoint / "state").rglob(f"{version}[._]*")
    return [path.name for path in found if path.suffix in (".snapshot", ".zip")]


# -- rewinds


@dataclass(frozen=True)
class Moments:
    """One query at several times, each of which is made when it is first asked for."""

    place: Path
    base: Job
    made: dict[str, Job]

    def at(self, name: str) -> Job:
        if name not in self.made:
            self.made[name] = getattr(self, name)()
        return self.made[name]

    def before(self) -> Job:
        """Nothing is maintained, and nothing is wrong."""
        self.base.go_on(REWOUND)
        return self.base

    def rewound(self) -> Job:
        """Maintained at version 20, and taken back."""
        job = self.at("before").copy(self.place / "rewound")
        job.go_on(OLD)
        report = maintain(LocalStorage(job.checkpoint), TIGHT)
        assert (report.exit_code, report.snapshots_written) == (0, 4)
        assert len(snapshots(job, OLD)) == 2
        job.take_back(CORRECTED)
        return replace(job, corrected=CORRECTED)

    def early(self) -> Job:
        """The old target is passed, the chain above it short."""
        job = self.at("rewound").copy(self.place / "early")
        job.go_on(EARLY)
        return job

    def late(self) -> Job:
        """A snapshot is due, and so are deletions."""
        job = self.at("early").copy(self.place / "late")
        job.go_on(LATE)
        return job


@pytest.fixture(scope="module")
def moments_of(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Moments]:
    made = {}
    for provider, conf in PROVIDERS.items():
        place = tmp_path_factory.mktemp(provider)
        made[provider] = Moments(place, Job(spark, conf, place / "before"), {})
    return made.__getitem__


@pytest.fixture
def job(moments_of: Callable[[str], Moments], provider: str, moment: str, tmp_path: Path) -> Job:
    """A copy of one's own."""
    return moments_of(provider).at(moment).copy(tmp_path / "job")


def at(*cases: str) -> pytest.MarkDecorator:
    """What a test is for: `provider moment`."""
    return pytest.mark.parametrize(("provider", "moment"), [one.split() for one in cases])


WRONG = at("hdfs early", "hdfs late", "rocks late")


@at("hdfs before")
def test_the_true_state_is_that_of_a_query_that_never_ran_on_other_input(job: Job) -> None:
    fresh = replace(job, corrected=CORRECTED)
    fresh.go_on(EARLY)
    assert fresh.batches[-1] == EARLY - 1
    assert fresh.wrong() == []
    assert changes(range(OLD, EARLY), CORRECTED).items() <= fresh.output.items()


@WRONG
def test_spark_reads_wrong_rows_from_the_old_snapshot_on(job: Job) -> None:
    assert job.wrong() == [batch for batch in job.batches if batch + 1 >= OLD]


@WRONG
def test_a_rewound_query_is_not_called_healthy(job: Job) -> None:
    assert run("verify", job.uri).returncode == 3
    assert run("verify", job.uri, "--deep").returncode == 3
    diagnosed = run("doctor", job.uri, "--json")
    assert diagnosed.returncode == 3
    assert json.loads(diagnosed.stdout)["next"] != ["nothing"]


@WRONG
def test_the_next_maintenance_of_a_rewound_query_ends_right_and_the_query_goes_on(job: Job) -> None:
    run("maintain", job.uri, *FLAGS)
    must_be_right(job)
    more = range(job.batches[-1] + 1, job.batches[-1] + 4)
    job.go_on(more.stop)
    assert changes(more, CORRECTED).items() <= job.output.items()
    assert run("maintain", job.uri, *FLAGS).returncode == 0
    must_be_right(job)


class KeepsDeltas(LocalStorage):
    """Refuses to delete or move a delta or a changelog."""

    def delete(self, path: str) -> None:
        self._check(path)
        super().delete(path)

    def delete_all(self, paths: Sequence[str], *, before: Callable[[], object] = nothing) -> None:
        for path in paths:
            self._check(path)
        super().delete_all(paths, before=before)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._check(path)
        super().move(path, to, like=like)

    def _check(self, path: str) -> None:
        if path.endswith((".delta", ".changelog")):
            raise StorageError(path, "Permission denied")


@at("hdfs late", "rocks late")
def test_no_delta_of_a_rewound_query_goes_before_spark_reads_the_right_rows(job: Job) -> None:
    maintain(KeepsDeltas(job.checkpoint), TIGHT)
    assert job.wrong() == []


@WRONG
def test_a_repair_of_a_rewound_query_ends_right(job: Job) -> None:
    run("repair", job.uri, "--apply")
    must_be_right(job)


@at("hdfs early", "hdfs late")
def test_advice_about_a_rewound_query_ends_right_or_is_not_called_healthy(
    job: Job, tmp_path: Path
) -> None:
    assert right_ends(job, tmp_path)


@at("rocks-ids early")
def test_ids_protect_a_rewound_query(job: Job) -> None:
    assert snapshots(job, OLD)
    must_be_right(job)
    assert run("verify", job.uri).returncode == 0
    assert run("maintain", job.uri, *FLAGS).returncode == 0
    must_be_right(job)


# -- undo


REPAIR = ("repair", "--apply")
MAINTAIN = ("maintain", "--trash-for", "30d", *FLAGS)


def newest_run(job: Job) -> str:
    return list_runs(LocalStorage(job.checkpoint))[0].run


@at("hdfs rewound", "rocks rewound")
def test_undo_brings_no_snapshot_back_that_lay_above_the_log(job: Job) -> None:
    """The query has passed its version since, with another state."""
    assert run(*REPAIR, job.uri).returncode == 0
    assert not snapshots(job, OLD)
    job.go_on(EARLY)
    run("undo", job.uri, newest_run(job))
    must_be_right(job)


@at("hdfs early")
@pytest.mark.parametrize("verb", [REPAIR, MAINTAIN], ids=["repair", "maintain"])
def test_undo_brings_no_snapshot_back_whose_log_was_written_again(
    job: Job, verb: tuple[str, ...]
) -> None:
    run(*verb, job.uri)
    assert job.wrong() == []
    job.go_on(LATE)
    run("undo", job.uri, newest_run(job))
    must_be_right(job)
    assert run("maintain", job.uri, *FLAGS).returncode == 0
    must_be_right(job)


# -- swapped files


@pytest.fixture(scope="module")
def before_swap(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """24 versions, maintained, and two more: snapshots 16 and 24 are proved."""
    job = Job(spark, PROVIDERS["hdfs"], tmp_path_factory.mktemp("swapped") / "whole")
    job.go_on(24)
    assert maintain(LocalStorage(job.checkpoint), TIGHT).exit_code == 0
    job.go_on(26)
    assert [len(snapshots(job, version)) for version in (16, 24)] == [2, 2]
    return job


@pytest.fixture(params=["with", "without"])
def swapped(before_swap: Job, request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    """Deltas 20 and 21 of a store are each other's, with or without the checksums of before."""
    job = before_swap.copy(tmp_path / "job")
    store = job.checkpoint / "state/0/0"
    (store / "20.delta").rename(store / "aside")
    (store / "21.delta").rename(store / "20.delta")
    (store / "aside").rename(store / "21.delta")
    for version in (20, 21) if request.param == "without" else ():
        (store / f".{version}.delta.crc").unlink()
    return job


def test_spark_reads_swapped_deltas_below_a_snapshot_without_a_word(swapped: Job) -> None:
    assert [batch + 1 for batch in swapped.wrong()] == [20, 21, 22, 23]
    assert not is_healthy(swapped)


def test_advice_about_swapped_deltas_ends_right_or_is_not_called_healthy(
    swapped: Job, tmp_path: Path
) -> None:
    right_ends(swapped, tmp_path)


def test_a_repair_leaves_the_checksums_that_were_right(swapped: Job) -> None:
    before = checksums(swapped)
    run("repair", swapped.uri, "--apply")
    assert checksums(swapped) == before


def checksums(job: Job) -> dict[str, bytes]:
    found = (job.checkpoint / "state").rglob(".*.crc")
    return {str(path.relative_to(job.checkpoint)): path.read_bytes() for path in found}


def test_maintenance_deletes_nothing_of_a_store_whose_deltas_are_swapped(swapped: Job) -> None:
    """The floor lies between them and the snapshot: one that is written there would be wrong."""
    swapped.go_on(30)
    store = swapped.checkpoint / "state/0/0"
    before = set(store.iterdir())
    assert run("maintain", swapped.uri, *FLAGS).returncode == 3
    assert before <= set(store.iterdir())
    assert not is_healthy(swapped)


# -- advice


def right_ends(job: Job, place: Path, *, depth: int = 4) -> int:
    """Follows all advice to its end, each piece on a copy; returns how many ends are right.

    Nothing on the way may be called healthy while Spark reads wrong rows.
    """
    if is_healthy(job):
        assert job.wrong() == [], f"called healthy: {place}"
        return 1
    ends = 0
    for command in advice(job) if depth else ():
        way = place / "-".join(one.lstrip("-") for one in command)
        copy = job.copy(way / "job")
        run(*command, copy.uri)
        if contents(copy) != contents(job):
            ends += right_ends(copy, way, depth=depth - 1)
    return ends


def advice(job: Job) -> list[tuple[str, ...]]:
    """Returns what doctor says to run, at a glance or with a deep look, ready to be carried out."""
    looks = (doctor(LocalStorage(job.checkpoint), deep=deep) for deep in (False, True))
    told = " ".join(line for look in looks for line in look.next)
    commands = dict.fromkeys(re.findall(r"`statemaint ([^`]*)`", told))
    return [(*one.split(), *_ENDS.get(one.split()[0], ())) for one in commands]


_ENDS = {"maintain": FLAGS, "repair": ("--apply",), "rollback": ("--apply",)}


def contents(job: Job) -> dict[str, bytes]:
    """Returns all that Spark reads."""
    files = (path for path in job.checkpoint.rglob("*") if path.is_file())
    names = {str(path.relative_to(job.checkpoint)): path for path in files}
    return {name: path.read_bytes() for name, path in names.items() if name[0] != "_"}
