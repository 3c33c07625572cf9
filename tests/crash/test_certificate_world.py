"""What the certificate's world has beside a query and maintenance: operators, links, troubles."""

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from statemaint.audit import doctor, verify
from statemaint.errors import StorageError
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from tests.certify.__main__ import LEAST_JUDGED, Counts
from tests.certify.alarms import Excuse, excuse
from tests.certify.habits import Habits
from tests.certify.judge import Loss
from tests.certify.maintainer import ON, Halt, Stop
from tests.certify.on_disk import Disk
from tests.certify.schedule import run
from tests.certify.seat import Seat
from tests.certify.setting import Setting
from tests.certify.stage import Stage
from tests.certify.troubles import kinds, mend, strike
from tests.certify.verdicts import Verdicts

pytestmark = pytest.mark.no_cover
TIGHT = Policy(min_deltas_for_snapshot=1, min_batches_to_retain=1, grace=0.0, orphan_age=0.0)
TRASHING = TIGHT.override(trash_for=1000.0)
TWO = ("state/0/0", "state/1/0")
FULL = kinds("state/0/0")["full disk"]


def stage_of(habits: Habits | None = None, *, batches: int = 6) -> Stage:
    """Returns a stage whose query has run some batches."""
    stage = Stage(Setting(habits or Habits()), Random(1))  # noqa: S311 -- no secret depends on it
    stage.batch(batches)
    return stage


def seat_of(stage: Stage) -> Seat:
    return Seat(stage.world, stage.doer(TIGHT), lambda _verb, _path: None)


# -- verdicts


def test_a_finding_of_what_is_right_is_a_false_alarm() -> None:
    stage = stage_of()
    finding = Finding(FindingCode.BROKEN_CHAIN, "", StoreId(0, 0), 3)
    with pytest.raises(LookupError):
        excuse(stage, (finding,))
    stage.certificate.excused = True
    stage.world.change({"state/0/0/6.delta": None})
    assert excuse(stage, (finding,)) is None


def test_what_was_wrong_once_excuses_no_alarm() -> None:
    stage = stage_of()
    stage.tally["rewinds"] = 1
    finding = Finding(FindingCode.CORRUPT_FILE, "", StoreId(0, 0), 3)
    with pytest.raises(LookupError):
        excuse(stage, (finding,))
    assert excuse(stage, (finding,), late=True) is Excuse.OVER


def test_an_alarm_about_another_store_is_false() -> None:
    stage = stage_of(Habits(stores=("state/0/0", "state/0/1")))
    stage.certificate.excused = True
    stage.world.change({"state/0/0/6.delta": None})
    assert excuse(stage, (Finding(FindingCode.BROKEN_CHAIN, "", StoreId(0, 0), 6),)) is None
    with pytest.raises(LookupError):
        excuse(stage, (Finding(FindingCode.BROKEN_CHAIN, "", StoreId(0, 1), 6),))


def test_a_verdict_of_a_healthy_checkpoint_is_judged() -> None:
    stage = stage_of()
    assert Verdicts(stage).ask()
    assert (stage.tally["verdicts"], stage.tally["verdicts that were judged"]) == (3, 3)


def test_wrong_rows_are_excused_to_the_verb_that_does_not_look_so_deep() -> None:
    stage = stage_of(Habits(in_executor=True), batches=3)
    stage.spark_snapshot(0)
    stage.land(-1)
    stage.operator.poison(0, cut=False)
    assert not Verdicts(stage).ask()
    assert stage.tally[f"excused: {Excuse.SHALLOW}"] == 1
    assert stage.tally["verdicts that were judged"] == stage.tally["verdicts"] - 1


@pytest.mark.parametrize(("excused", "judged"), [(10, 90), (11, 89)])
def test_of_a_hundred_verdicts_ninety_must_be_judged(excused: int, judged: int) -> None:
    counts = Counts(tally=Counter({"verdicts": 100, f"excused: {Excuse.SHALLOW}": excused}))
    lines = dict(counts.lines())
    assert lines[f"excused, since {Excuse.SHALLOW}"] == excused
    assert lines["judged, of a hundred verdicts"] == judged
    assert counts.fails == (judged < LEAST_JUDGED)


# -- two operators


@pytest.mark.parametrize("ids", [False, True])
def test_a_commit_names_the_attempts_of_both_operators(ids: bool) -> None:  # noqa: FBT001
    habits = Habits(stores=TWO, rocks=True, ids=ids, spark=4)
    stage = stage_of(habits, batches=3)
    assert not any(stage.certificate.wrong())
    stage.maintain(TIGHT, ON)
    assert {path.split("/")[1] for path in stage.certificate.made} == {"0", "1"}
    assert verify(seat_of(stage), deep=True).healthy


def test_a_query_that_spark_4_began_keeps_its_operators() -> None:
    stage = stage_of(Habits(stores=TWO, spark=4))
    stage.operator.remove_operator()
    assert stage.stores == TWO


def test_a_restart_without_an_operator_leaves_its_state_and_declares_the_others() -> None:
    stage = stage_of(Habits(stores=TWO, spark=3))
    before = stage.world.index.under("state/1/")
    stage.operator.remove_operator()
    stage.batch(3)
    files = stage.world.index.under("state/1/")
    assert {*before} < {*files}
    assert max(one.version for one in stage.world.index.live[TWO[1]].values()) == 7
    assert stage.query.target == 11
    assert "state/0/_metadata/metadata" in stage.world.files
    assert "state/1/_metadata/metadata" not in stage.world.files
    assert not any(stage.certificate.wrong())


def test_no_verb_calls_the_state_of_a_removed_operator_damaged() -> None:
    stage = stage_of(Habits(stores=TWO, spark=3))
    stage.maintain(TIGHT, ON)
    stage.operator.remove_operator()
    stage.batch(3)
    found = doctor(seat_of(stage))
    assert found.restarts
    assert not [one for one in found.findings if one.damage]


def test_a_run_that_touches_a_removed_operators_state_is_caught() -> None:
    stage = stage_of(Habits(stores=TWO, spark=3))
    stage.operator.remove_operator()
    with pytest.raises(Loss, match=r"S3: .*an operator that the query has not"):
        stage.world.change({"state/1/0/1.delta": None}, stage.doer(TIGHT))


def test_an_operator_may_have_left_only_where_what_shows_it_is_lost() -> None:
    stage = stage_of(Habits(stores=TWO, spark=3))
    stage.operator.remove_operator()
    stage.batch(1)
    behind = Finding(FindingCode.BROKEN_CHAIN, "", StoreId(1, 0), 7)
    said = Finding(FindingCode.UNDECLARED_OPERATOR, "", path="state/1")
    with pytest.raises(LookupError):
        excuse(stage, (said, behind))
    stage.certificate.excused = True
    stage.world.change({f"state/0/0/{stage.query.target}.delta": None})
    assert excuse(stage, (said, behind)) is Excuse.OPEN
    with pytest.raises(LookupError):
        excuse(stage, (behind,))


# -- troubles that last


def test_a_full_disk_refuses_every_write_until_it_is_mended() -> None:
    stage = stage_of()
    seat, path = seat_of(stage), "_statemaint/ledger/x"
    stage.world.trouble = FULL
    with pytest.raises(StorageError, match="No space left"):
        seat.write("_statemaint/x", [b""])
    with pytest.raises(StorageError, match="No space left"):
        seat.append(path, b"line\n")
    seat.delete("state/0/0/1.delta.tmp")
    mend(stage)
    seat.append(path, b"line\n")
    assert stage.world.files[path].content == b"line\n"


def test_a_query_does_not_go_on_beside_a_full_disk() -> None:
    stage = stage_of()
    strike(stage, "full disk", 3, TIGHT, Halt(Stop.TROUBLE))
    target = stage.query.target
    stage.batch(2)
    assert stage.query.target == target
    mend(stage)
    stage.batch(2)
    assert stage.query.target == target + 2


def test_a_closed_folder_gives_no_verdict() -> None:
    stage = stage_of()
    stage.world.trouble = kinds("state/0/0")["closed store"]
    assert not Verdicts(stage).ask()
    assert stage.tally["verdicts"] == 0
    assert stage.tally["verdicts that could not be given"] == 1


POINTS = [*(("linked", after) for after in range(3)), *(("", after) for after in range(0, 60, 6))]


def met(kind: str, verb: str, after: int) -> Stage:
    """Returns a stage on which a trouble has begun at a point of a run, and the query goes on."""
    stage = stage_of(batches=5)
    halt = Halt(Stop.TROUBLE, after, verb)
    strike(stage, kind, 3, TRASHING, halt)
    stage.batch()
    return stage


@pytest.mark.parametrize("kind", sorted(kinds("")))
def test_a_run_that_meets_a_trouble_loses_nothing_and_the_next_one_ends_well(kind: str) -> None:
    for verb, after in POINTS:
        stage = met(kind, verb, after)
        stage.ended.clear()  # what their records say is another test
        mend(stage)
        stage.world.clock += 100  # whoever could not end its lease has lost it by then
        last = stage.maintain(TIGHT, ON)
        assert last
        assert last.report
        assert last.report.exit_code == 0
        assert verify(seat_of(stage), deep=True).healthy


@pytest.mark.parametrize("kind", sorted(kinds("")))
def test_the_record_of_a_run_that_met_a_trouble_names_what_it_took(kind: str) -> None:
    for verb, after in POINTS:
        mend(met(kind, verb, after))


# -- links


def test_a_change_through_a_link_is_seen_outside_of_the_root(tmp_path: Path) -> None:
    disk = Disk(tmp_path, stage_of(), "clone", Random(3))  # noqa: S311 -- as above
    (link,) = disk.links
    before = disk.outside()
    (disk.root / "inside").write_text("")
    assert disk.outside() == before
    target = next(one for one in sorted((tmp_path / link).rglob("*")) if one.is_file())
    os.utime(target, (1, 1))
    assert disk.outside() != before


def test_what_a_linked_root_leads_to_is_not_outside(tmp_path: Path) -> None:
    disk = Disk(tmp_path, stage_of(), "root", Random(3))  # noqa: S311 -- as above
    before = disk.outside()
    (disk.root / "commits/5").unlink()
    assert not (disk.real / "commits/5").exists()
    assert disk.outside() == before
    (tmp_path / "original/commits/5").unlink()
    assert disk.outside() != before


def test_no_verb_changes_a_byte_outside_of_the_root() -> None:
    among = {"events": ("links",)}
    losses = [run(seed, among=among, alone=True).loss for seed in range(40)]
    assert losses == [None] * 40
