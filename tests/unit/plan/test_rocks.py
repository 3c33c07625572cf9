"""What is planned for stores of RocksDB."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot, SstFile
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.model.proof import Attestation, Outdated
from statemaint.model.rocks import Upload, Uploads
from statemaint.plan.actions import Delete, Plan, Request, WriteSnapshot
from statemaint.plan.planner import plan
from statemaint.plan.sst_files import executors_upload, overtakes
from statemaint.plan.uploads import observed
from statemaint.report.to_json import plan_json
from tests.support.checkpoints import NOW, names, versions
from tests.support.rocks import rocks_checkpoint, rocks_store, window
from tests.support.simulate import after, attest

POLICY = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=3, grace=0, orphan_age=100)
SPARKS = "1z:a 2c 3c 4z:a+b 5c 6c 7c 8c 9c 10z:c 11c 12c 13c sa sb sc"


def planned(
    store: Store, *, batches: range = range(8, 13), policy: Policy = POLICY, **request: object
) -> Plan:
    asked = Request(**request)  # type: ignore[arg-type]
    return plan(rocks_checkpoint(store, batches=batches), policy, NOW, request=asked)


def deleted(found: Plan) -> dict[str, str]:
    gone = (one for one in found.actions if isinstance(one, Delete))
    return {one.path.removeprefix("state/0/0/"): one.reason.value for one in gone}


def kept(found: Plan) -> dict[str, str]:
    stays = (one for store in found.stores for one in store.kept)
    return {one.entry.path.removeprefix("state/0/0/"): one.reason.value for one in stays}


def written(found: Plan) -> dict[str, str]:
    new = (one for one in found.actions if isinstance(one, WriteSnapshot))
    return {one.path.removeprefix("state/0/0/"): one.reason.value for one in new}


def codes(found: Plan) -> list[FindingCode]:
    return [one.code for one in found.all_findings]


def test_a_snapshot_is_due_at_the_threshold_and_not_only_above_it() -> None:
    four, five = (
        planned(rocks_store(versions("c", 1, last)), batches=range(last)) for last in (4, 5)
    )
    assert written(four) == {}
    assert written(five) == {"5.zip": "chain_too_long"}


def test_with_unique_ids_a_snapshot_bears_the_committed_one() -> None:
    store = rocks_store("1_ac 2_bc 3_cc 4_dc 5_ec", ids=dict(enumerate("abcde", 1)))
    found = planned(store, batches=range(5))
    assert written(found) == {"5_e.zip": "chain_too_long"}
    assert [one.id for one in found.actions if isinstance(one, WriteSnapshot)] == ["e"]


def test_nothing_that_executors_may_need_goes_on_the_first_run_and_changelogs_go() -> None:
    found = planned(rocks_store(SPARKS, since=None))
    assert deleted(found) == {"2.changelog": "below_base", "3.changelog": "below_base"}
    assert kept(found)["1.zip"] == "executor_may_build_on_it"
    assert kept(found)["SSTs/a.sst"] == "used_by_snapshot"


def test_before_we_know_of_executors_no_zip_of_ours_shares_a_table() -> None:
    found = planned(
        rocks_store(f"1z:a {versions('c', 2, 40)} sa", since=None), batches=range(30, 40)
    )
    assert written(found) == {"40.zip": "chain_too_long", "31.zip": "rebase"}
    writes = [one for one in found.actions if isinstance(one, WriteSnapshot)]
    assert [one.reuse for one in writes] == [False, False]
    lowest = found.stores[0].store.versions.snapshots[1]
    assert [(one.id, one.families) for one in writes] == [(None, lowest), (None, lowest)]


@pytest.mark.parametrize(
    ("theirs_last", "version", "spoils"),
    [
        # Five versions are retained. Beside 60.zip, Spark keeps the newest zip up to 56, ...
        ("57.zip", 60, True),  # ... 60.zip once another executor has uploaded 64.zip
        ("57.zip", 55, True),  # ... this one, and deletes 50.zip
        ("57.zip", 45, False),
        ("50.zip", 60, True),  # ... 50.zip, and deletes 40.zip, that it may have begun from
        ("40.zip", 60, False),  # twenty versions without one are silence
    ],
)
def test_no_zip_of_ours_has_spark_delete_what_an_executor_builds_on(
    theirs_last: str, version: int, *, spoils: bool
) -> None:
    zips = "40z:a 50z:b" + (" 57z:c" if theirs_last == "57.zip" else "")
    every_ten = Uploads((Upload(30, "state/0/0/30.zip"), Upload(40, "state/0/0/40.zip")), 10)
    store = replace(quiet(f"{zips} {versions('c', 41, 60)} sa sb sc"), uploads=every_ten)
    assert not overtakes(store, version, window(55, 60))
    assert overtakes(theirs(store, theirs_last), version, window(55, 60)) == spoils


def test_with_a_hundred_retained_versions_a_late_one_comes_long_before_that() -> None:
    every_ten = Uploads((Upload(137, "state/0/0/137.zip"), Upload(147, "state/0/0/147.zip")), 10)
    known = quiet(f"140z:a 157z:c {versions('c', 141, 160)} sa sc")
    store = theirs(replace(known, uploads=every_ten), "157.zip")
    assert not overtakes(store, 160, window(60, 160))
    assert overtakes(store, 160, window(150, 160))


def test_the_zip_that_a_first_batch_has_to_write_is_no_habit() -> None:
    store = theirs(quiet(f"1z:a {versions('c', 2, 13)} sa"), "1.zip")
    assert overtakes(store, 13, window(9, 13))
    assert not overtakes(store, 13, window(9, 13, forced=frozenset({0})))
    assert overtakes(store, 13, window(9, 13, forced=frozenset({1})))


def test_our_zip_is_never_the_only_one_that_spark_has_to_delete() -> None:
    """With it go older tables that no zip names: somebody else uploaded 50.zip again since."""
    once = Uploads((Upload(50, "state/0/0/50.zip"),), 0)
    store = replace(quiet(f"50z:a {versions('c', 51, 60)} sa sb"), uploads=once)
    alone = theirs(store, "50.zip")
    assert overtakes(alone, 45, window(45, 60))
    assert not overtakes(alone, 60, window(45, 60))
    more = replace(quiet(f"30z:a 40z:a 50z:a {versions('c', 51, 60)} sa sb"), uploads=once)
    assert not overtakes(theirs(more, "50.zip"), 35, window(35, 60))


def test_the_newest_version_and_not_a_fixed_target_says_what_spark_retains() -> None:
    """Spark counts what it retains from its newest zip, which may be of a later version by now."""
    every_ten = Uploads((Upload(30, "state/0/0/30.zip"), Upload(40, "state/0/0/40.zip")), 10)
    known = quiet(f"40z:a 50z:b 57z:c {versions('c', 41, 60)} sa sb sc")
    store = theirs(replace(known, uploads=every_ten), "57.zip")
    assert overtakes(store, 55, window(55, 56, 60))
    assert overtakes(store, 55, window(55, 60))
    assert not overtakes(known, 55, window(55, 56, 60))


def test_after_twenty_quiet_versions_zips_go_and_then_what_only_they_needed() -> None:
    store = quiet(f"1z:a 2c 3c 40z:a+b {versions('c', 41, 46)} 50z:c sa sb sc sd")
    found = planned(store, batches=range(49, 50))
    assert deleted(found) == {
        "1.zip": "below_base",
        "2.changelog": "below_base",
        "3.changelog": "below_base",
        "40.zip": "below_base",
        **{f"{version}.changelog": "below_base" for version in range(41, 47)},
        "SSTs/a.sst": "unused_sst",
        "SSTs/b.sst": "unused_sst",
        "SSTs/d.sst": "orphan_sst",
    }
    order = [one.version == 0 for one in found.actions if isinstance(one, Delete)]
    assert order == sorted(order)


def quiet(notation: str, **known: object) -> Store:
    """Returns a store in which we have been alone for a hundred versions, and proved all zips."""
    store = rocks_store(notation, since=-100, **known)  # type: ignore[arg-type]
    return made_by_us(store, target=-100)


def made_by_us(store: Store, *, target: int | None = None) -> Store:
    """Returns the store with all its zips by us; with a target they were proved in its run."""
    zips = [one for one in store.files if isinstance(one, Snapshot)]
    there = tuple(one.entry.path for one in zips)
    proofs = (attest(one.entry, one.version, target=target) for one in zips)
    proved = () if target is None else tuple(proofs)
    assert store.rocks is not None
    rocks = replace(store.rocks, ours=frozenset(there))
    return replace(store, written=there, attestations=proved, rocks=rocks)


def test_a_table_that_a_kept_zip_needs_stays() -> None:
    found = planned(quiet("4z:a+b 5z:b+c 6c 7c 8c 9c 10z:c sa sb sc"), batches=range(4, 10))
    assert deleted(found) == {"4.zip": "below_base", "SSTs/a.sst": "unused_sst"}
    assert kept(found)["SSTs/b.sst"] == "used_by_snapshot"


def test_a_table_that_is_young_stays_though_its_last_zip_goes() -> None:
    found = planned(quiet("4z:a 5z:b 6c 7c 8c 9c 10c sa@99 sb"), batches=range(4, 10))
    assert deleted(found) == {"4.zip": "below_base"}
    assert kept(found)["SSTs/a.sst"] == "orphan_too_young"


def theirs(store: Store, name: str) -> Store:
    """Returns the store with one zip that an executor wrote."""
    assert store.rocks is not None
    ours = store.rocks.ours - {f"state/0/0/{name}"}
    return replace(store, rocks=replace(store.rocks, ours=ours))


def test_while_executors_upload_no_zip_and_no_table_goes() -> None:
    store = quiet("1z:a 2c 3c 4z:b 5c 6c 7c 8c 9c sa sb sc 10z:c 11c 12c 13c 14c 15c sd")
    found = planned(theirs(store, "10.zip"), batches=range(11, 15))
    assert set(deleted(found).values()) == {"below_base"}
    assert names(deleted(found)) == [f"{version}.changelog" for version in (2, 3, 5, 6, 7, 8, 9)]
    assert kept(found)["1.zip"] == kept(found)["SSTs/d.sst"] == "executor_may_build_on_it"
    assert written(found) == {}
    assert codes(found) == [FindingCode.FOREIGN_MAINTAINER]


def test_an_executors_zip_over_ours_is_theirs_though_we_have_proved_it() -> None:
    store = quiet("1z:a 2c 3c 4z:b 5c 6c 7c sa sb")
    assert codes(planned(store, batches=range(4, 7))) == []
    replaced = theirs(store, "4.zip")
    assert "state/0/0/4.zip" in replaced.written
    assert codes(planned(replaced, batches=range(4, 7))) == [FindingCode.FOREIGN_MAINTAINER]


def named(store: Store, **zips: str) -> Store:
    """Returns the store with the column families of some zips, `z25="default counts"`."""
    families = {
        f"state/0/0/{version.removeprefix('z')}.zip": {
            name: number for number, name in enumerate(names.split(), 1)
        }
        for version, names in zips.items()
    }
    assert store.rocks is not None
    return replace(store, rocks=replace(store.rocks, families=families))


EVOLVED = f"10z:a {versions('c', 11, 30)} 20z:b 25z:c sa sb sc"


def test_a_zip_that_a_new_column_family_forced_is_no_maintenance_by_executors() -> None:
    store = theirs(quiet(EVOLVED), "25.zip")
    forced = named(store, z10="default", z20="default", z25="default counts")
    assert codes(planned(store, batches=range(24, 30))) == [FindingCode.FOREIGN_MAINTAINER]
    assert codes(planned(forced, batches=range(24, 30))) == []
    dropped = named(store, z10="default old", z20="default old", z25="default")
    assert codes(planned(dropped, batches=range(24, 30))) == []


def test_a_zip_with_the_families_of_the_zip_below_it_is_maintenance_by_executors() -> None:
    store = theirs(quiet(f"{EVOLVED} 28z:c"), "28.zip")
    store = named(theirs(store, "25.zip"), z20="default", z25="default new", z28="default new")
    (finding,) = planned(store, batches=range(24, 30)).findings
    assert finding.code is FindingCode.FOREIGN_MAINTAINER
    assert finding.detail.startswith("state/0/0/28.zip and 0 more snapshots")


def test_the_first_zip_of_a_store_with_families_is_forced_and_of_one_without_is_not() -> None:
    store = theirs(quiet(f"1z:a {versions('c', 2, 8)} sa"), "1.zip")
    assert codes(planned(named(store, z1="default"), batches=range(6, 8))) == []
    assert codes(planned(named(store, z1=""), batches=range(6, 8))) == [
        FindingCode.FOREIGN_MAINTAINER
    ]


def test_a_forced_zip_with_nothing_left_below_is_known_by_the_schema_of_its_batch() -> None:
    store = theirs(quiet(f"25z:c {versions('c', 26, 30)} sc"), "25.zip")
    store = named(store, z25="default counts")
    assert codes(planned(store, batches=range(27, 30))) == [FindingCode.FOREIGN_MAINTAINER]
    assert store.rocks is not None
    schema = replace(store, rocks=replace(store.rocks, evolved=frozenset({1, 25})))
    assert codes(planned(schema, batches=range(27, 30))) == []


def test_executors_may_build_on_a_forced_zip_as_on_any_other() -> None:
    """Only the report leaves it out: nothing is deleted or written that was not before."""
    store = theirs(quiet(EVOLVED), "25.zip")
    forced = named(store, z10="default", z20="default", z25="default counts")
    was, now = (planned(one, batches=range(24, 30)) for one in (store, forced))
    assert (was.actions, was.stores[0].kept) == (now.actions, now.stores[0].kept)
    assert [one.wait for one in now.withheld] == [one.wait for one in was.withheld] != []
    assert kept(now)["10.zip"] == "executor_may_build_on_it"
    assert executors_upload(forced, window(25, 30))
    assert observed(forced) == observed(store)


def test_a_zip_that_an_executor_may_have_loaded_stays_for_twenty_versions_of_silence() -> None:
    store = quiet("4z:a 5c 6c 7c 8c 9c 10z:b 11c 12c 13c sa sb")
    for target, goes in ((-6, False), (-7, True)):
        proofs = tuple(replace(one, target=target + one.version - 10) for one in store.attestations)
        found = planned(replace(store, attestations=proofs), batches=range(9, 13))
        assert ("4.zip" in deleted(found)) == goes
        assert kept(found).get("4.zip", "executor_may_build_on_it") == "executor_may_build_on_it"
        assert "5.changelog" in deleted(found)


def test_executors_that_snapshot_rarely_are_given_longer() -> None:
    # Their zips lie 30 versions apart, so silence takes 60.
    store = rocks_store(f"10z:a 40z:b sa sb {versions('c', 41, 100)}")
    proofs = {one.version: one.entry for one in store.files if isinstance(one, Snapshot)}
    for target, goes in ((41, False), (40, True)):
        proved = (attest(proofs[40], 40, target=target),)
        known = replace(store, since=target, written=("state/0/0/50.zip",), attestations=proved)
        assert ("10.zip" in deleted(planned(known, batches=range(99, 100)))) == goes


def test_a_zip_a_batch_is_cleaned_up_and_nothing_is_written() -> None:
    found = planned(
        rocks_store("1z:a 2z:a 3z:b 4z:b 5z:c 6z:c sa sb sc", since=None), batches=range(3, 6)
    )
    assert written(found) == {}
    assert deleted(found) == {
        "1.zip": "below_base",
        "2.zip": "below_base",
        "SSTs/a.sst": "unused_sst",
    }
    assert codes(found) == []


def test_a_zip_of_a_batch_that_is_not_committed_is_in_order_where_every_batch_writes_one() -> None:
    found = planned(rocks_store("4z 5z 6z 7z"), batches=range(4, 6))
    assert codes(found) == []
    assert kept(found)["7.zip"] == "above_target"
    rewound = planned(rocks_store("4z 5z 6z 7z 8z"), batches=range(4, 6))
    assert codes(rewound) == [FindingCode.SNAPSHOT_ABOVE_TARGET]


def test_a_zip_above_the_target_halts_the_store_where_changelogs_are_written() -> None:
    found = planned(rocks_store("1c 2c 3c 4c 5c 6c 7z"), batches=range(3, 6))
    assert codes(found) == [FindingCode.SNAPSHOT_ABOVE_TARGET]
    assert found.actions == ()


def test_a_zip_above_the_target_of_another_attempt_is_harmless() -> None:
    ids = dict(enumerate("abcdef", 1))
    found = planned(rocks_store("1_ac 2_bc 3_cc 4_dc 5_ec 6_fc 7_xz", ids=ids), batches=range(3, 6))
    assert codes(found) == []
    assert kept(found)["7_x.zip"] == "above_target"


def test_attempts_that_no_commit_names_go_when_they_are_old() -> None:
    notation = "4_dz 5_ec 5_xc 5_yz:a@50 6_fc 7_gc 8_hc 8_xc@50 sa"
    store = quiet(notation, ids=dict(enumerate("abcdefgh", 1)))
    found = planned(store, batches=range(4, 8))
    assert deleted(found) == {"5_x.changelog": "dead_attempt"}
    assert kept(found)["5_y.zip"] == kept(found)["8_x.changelog"] == "orphan_too_young"
    assert kept(found)["SSTs/a.sst"] == "used_by_snapshot"
    later = planned(store, batches=range(4, 8), policy=replace(POLICY, orphan_age=50))
    assert deleted(later) == {
        "5_x.changelog": "dead_attempt",
        "5_y.zip": "dead_attempt",
        "8_x.changelog": "dead_attempt",
        "SSTs/a.sst": "orphan_sst",
    }


def test_while_the_log_is_in_doubt_no_attempt_counts_as_dead() -> None:
    """Two changelogs changed places: the lineage that named version 4's is in neither any more."""
    ids = dict(enumerate("abcdefg", 1))
    store = quiet("4_dz:a 4_dc 4_xc 5_ec 6_fc 7_gc sa", ids=ids)
    policy = replace(POLICY, orphan_age=50)
    assert deleted(planned(store, batches=range(4, 7), policy=policy)) == {
        "4_x.changelog": "dead_attempt"
    }
    proof = Attestation("state/0/0/4_d.zip", 4, 1, None, "0" * 32, 1, 1)
    (other,) = [one.entry for one in store.files if one.entry.name == "5_e.changelog"]
    edited = replace(store, former=(Outdated(proof, (other,)),))
    assert deleted(planned(edited, batches=range(4, 7), policy=policy)) == {}


def test_a_gap_in_the_lineage_is_said_to_be_one() -> None:
    ids = dict(enumerate("abcdef", 1))
    found = planned(rocks_store("4_dz 6_fc", ids=ids), batches=range(3, 6))
    (finding,) = found.all_findings
    assert finding.code is FindingCode.LINEAGE_BROKEN
    assert "state/0/0/5_e.changelog is missing" in finding.detail
    plain = planned(rocks_store("4z 6c"), batches=range(3, 6))
    assert codes(plain) == [FindingCode.BROKEN_CHAIN]


def test_the_oldest_batch_may_have_lost_its_state_to_sparks_own_clean_up() -> None:
    """It keeps as many versions as batches, and the commit log has one batch more."""
    for notation in ("17z 18z 19z 20z", "17z 18c 19c 20c", "18z 19c 20z"):
        found = planned(rocks_store(notation), batches=range(15, 20))
        assert found.all_findings == ()
        assert deleted(found) == {}


def test_with_unique_ids_it_may_have_too() -> None:
    ids = {17: "a", 18: "b"}
    found = planned(rocks_store("17_az 18_bc", ids=ids), batches=range(15, 18))
    assert found.all_findings == ()


def test_what_lies_below_a_gap_says_that_no_clean_up_made_it() -> None:
    for notation in ("14c 17z 18z", "15z 17z 18c", "1c 17z 18c"):
        found = planned(rocks_store(notation), batches=range(15, 18))
        assert FindingCode.BROKEN_CHAIN in codes(found) or "15z" in notation
        assert deleted(found) == {}
    above = planned(rocks_store("19z"), batches=range(15, 18))
    assert FindingCode.BROKEN_CHAIN in codes(above)


def test_what_a_late_task_put_below_after_the_clean_up_says_nothing() -> None:
    found = planned(rocks_store("14c@50 17z 18c"), batches=range(15, 18))
    assert found.all_findings == ()
    for notation in ("14c@50 17z@40 18c", "15z@50 17z 19c", "14c 17z 18c"):
        found = planned(rocks_store(notation), batches=range(15, 18))
        assert codes(found) == [FindingCode.BROKEN_CHAIN]


def test_a_store_that_lost_its_oldest_zip_may_still_have_one_for_each_batch() -> None:
    store = rocks_store("17z 18z 19z 20z")
    assert store.snapshot_per_batch(16, 20)
    assert not rocks_store("17z 18z 20z").snapshot_per_batch(16, 20)
    assert not rocks_store("").snapshot_per_batch(16, 20)
    assert not rocks_store("17z").snapshot_per_batch(17, 17), "one version does not say"


def test_a_zip_in_the_window_that_lacks_a_table_halts_the_store() -> None:
    found = planned(rocks_store("4z:a 5c 6z:b 7c 8c sa"), batches=range(4, 8))
    assert codes(found) == [FindingCode.MISSING_SST]
    assert found.actions == ()
    assert "6.zip needs state/0/0/SSTs/b.sst" in found.all_findings[0].detail


def test_a_zip_below_the_window_that_lacks_a_table_goes_with_the_rest() -> None:
    found = planned(quiet("2z:x 3c 4z:a 5c 6c 7c 8c sa"), batches=range(4, 8))
    assert codes(found) == []
    assert deleted(found) == {"2.zip": "below_base", "3.changelog": "below_base"}


def test_no_table_goes_while_a_zip_that_stays_cannot_be_read() -> None:
    store = quiet("4z:a 5c 6c 7c 8c 9z sa sb", unreadable=["9.zip"])
    found = planned(store, batches=range(4, 8))
    assert codes(found) == []  # it lies above the target: nobody loads it
    assert kept(found)["SSTs/b.sst"] == "unreadable_snapshot_may_use_it"
    inside = planned(store, batches=range(4, 9))
    assert codes(inside) == [FindingCode.CORRUPT_FILE]


def test_under_a_limit_tables_wait_for_every_zip() -> None:
    store = quiet("1z:a 2z:b 3z:c 4c 5c 6c sa sb sc")
    for most in range(6):
        policy = replace(POLICY, max_deletes_per_run=most)
        found = deleted(planned(store, batches=range(4, 6), policy=policy))
        assert list(found) == ["1.zip", "2.zip", "SSTs/a.sst", "SSTs/b.sst"][:most]


def test_a_checksum_file_goes_with_its_zip() -> None:
    found = planned(quiet("2z:a 2k 4z:a 4k 5c 6c sa"), batches=range(4, 6))
    assert list(deleted(found).items()) == [
        (".2.zip.crc", "side_file_of_deleted"),
        ("2.zip", "below_base"),
    ]
    ids = dict(enumerate("abcdef", 1))
    dead = planned(quiet("4_dz 5_ec 5_xz 5_xk 6_fc", ids=ids), batches=range(4, 6))
    assert list(deleted(dead).items()) == [
        (".5_x.zip.crc", "orphan_side_file"),
        ("5_x.zip", "dead_attempt"),
    ]


def test_no_zip_is_written_where_one_stands_that_cannot_be_loaded() -> None:
    # The floor's own zip lacks a table, below all that the commit log still asks for.
    store = quiet("5z:x 6c 7c 8c 9c 10z:a 11c 12c sa " + versions("c", 1, 5))
    found = planned(store, batches=range(10, 12), policy=replace(POLICY, min_batches_to_retain=7))
    assert "5.zip" not in written(found)
    assert codes(found) == []


# -- properties, on any listing

AGES = st.sampled_from([0, 10, 200, 10**9])
LAST = 12
TABLES = "abcde"


@st.composite
def stores(draw: st.DrawFn) -> Store:
    unique = draw(st.booleans())
    tokens = []
    first = draw(st.integers(1, LAST))
    for version in range(1, LAST + 2):
        name = f"{version}_m" if unique else f"{version}"
        if version >= first and draw(st.integers(0, 9)):
            tokens.append(f"{name}c@{draw(AGES)}")
        for stem in (name, f"{version}_x"):
            if draw(st.integers(0, 3 if stem == name else 8)) == 0:
                parts = "+".join(sorted(draw(st.sets(st.sampled_from(TABLES), max_size=3))))
                tokens.append(f"{stem}z{f':{parts}' if parts else ''}@{draw(AGES)}")
    tokens += [f"s{one}@{draw(AGES)}" for one in TABLES if draw(st.integers(0, 9))]
    store = rocks_store(
        " ".join(tokens),
        ids=dict.fromkeys(range(1, LAST + 1), "m") if unique else None,
        since=draw(st.sampled_from([None, -50, -50, 5])),
    )
    there = [one.entry.path for one in store.files if isinstance(one, Snapshot)]
    ours = tuple(path for path in there if draw(st.integers(0, 3)))
    proofs = tuple(
        attest(one.entry, one.version)
        for one in store.files
        if isinstance(one, Snapshot) and draw(st.booleans())
    )
    return replace(store, written=ours, attestations=proofs)


@st.composite
def seen(draw: st.DrawFn) -> Checkpoint:
    committed = draw(st.integers(0, LAST - 1))
    oldest = draw(st.integers(0, committed))
    return rocks_checkpoint(draw(stores()), batches=range(oldest, committed + 1))


POLICIES = st.builds(
    Policy,
    min_deltas_for_snapshot=st.integers(1, 6),
    min_batches_to_retain=st.integers(1, LAST),
    grace=st.sampled_from([0, 50]),
    orphan_age=st.sampled_from([0, 50]),
    max_deletes_per_run=st.sampled_from([50_000, 2]),
    rebase=st.booleans(),
)


def loadable(found: Plan, checkpoint: Checkpoint) -> frozenset[int]:
    """Returns which retained versions load: the zips that cannot be loaded are as they were."""
    (store,) = checkpoint.stores
    assert found.floor is not None
    assert checkpoint.target is not None
    return store.versions.loadable(found.floor, checkpoint.target)


def dangling(store: Store) -> set[tuple[str, str]]:
    """Returns each zip that refers to a table that is not there, with the table."""
    assert store.rocks is not None
    there = {one.entry.path for one in store.files}
    zips = [one.entry.path for one in store.files if isinstance(one, Snapshot)]
    parts = store.rocks.parts
    return {(path, part) for path in zips for part in parts[path] if part not in there}


@given(seen(), POLICIES)
def test_every_prefix_keeps_every_retained_version_and_no_zip_ever_lacks_a_table(
    checkpoint: Checkpoint, policy: Policy
) -> None:
    found = plan(checkpoint, policy, NOW)
    before, lacking = loadable(found, checkpoint), dangling(checkpoint.stores[0])
    for length in range(len(found.actions) + 1):
        now = after(checkpoint, found.actions[:length], NOW)
        assert loadable(found, now) >= before
        assert dangling(now.stores[0]) <= lacking


@given(seen(), POLICIES)
def test_kept_and_deleted_partition_the_listing(checkpoint: Checkpoint, policy: Policy) -> None:
    found = plan(checkpoint, policy, NOW)
    (store,) = found.stores
    gone = [one.entry for one in store.actions if isinstance(one, Delete)]
    stays = [one.entry for one in store.kept]
    assert sorted(gone + stays) == sorted(file.entry for file in store.store.files)


@given(seen(), POLICIES)
def test_planning_again_on_the_result_is_empty_but_for_what_was_postponed(
    checkpoint: Checkpoint, policy: Policy
) -> None:
    policy = replace(policy, max_deletes_per_run=50_000)
    found = plan(checkpoint, policy, NOW)
    assert plan(after(checkpoint, found.actions, NOW), policy, NOW).actions == ()


@given(seen(), POLICIES, st.integers())
def test_the_order_of_the_listing_does_not_matter(
    checkpoint: Checkpoint, policy: Policy, seed: int
) -> None:
    (store,) = checkpoint.stores
    mixed = random.Random(seed).sample(store.files, len(store.files))  # noqa: S311
    other = replace(checkpoint, stores=(replace(store, files=tuple(mixed)),))
    one, two = plan(checkpoint, policy, NOW), plan(other, policy, NOW)
    assert plan_json(checkpoint, one) == plan_json(checkpoint, two)


@given(seen(), POLICIES, st.integers(1, LAST))
def test_more_retention_never_deletes_more(
    checkpoint: Checkpoint, policy: Policy, more: int
) -> None:
    policy = replace(policy, max_deletes_per_run=50_000)
    longer = replace(policy, min_batches_to_retain=policy.min_batches_to_retain + more)
    less, most = (deleted(plan(checkpoint, one, NOW)) for one in (longer, policy))
    assert set(less) <= set(most)


@given(seen(), POLICIES)
def test_while_executors_may_build_on_them_no_zip_and_no_table_goes(
    checkpoint: Checkpoint, policy: Policy
) -> None:
    (store,) = checkpoint.stores
    found = plan(replace(checkpoint, stores=(replace(store, since=None),)), policy, NOW)
    if store.snapshot_per_batch(checkpoint.required or 0, checkpoint.target or 0):
        return
    gone = {one.entry for one in found.actions if isinstance(one, Delete)}
    files = [one for one in store.files if one.entry in gone]
    assert all(isinstance(one, Delta) for one in files if not isinstance(one, SstFile))
    assert not [one for one in files if isinstance(one, SstFile)]


def test_with_unique_ids_executors_are_to_snapshot_now_and_then() -> None:
    """A changelog with ids names each version since its executor's last zip: 860 at the most."""
    ids = dict.fromkeys(range(1, 31), "a")
    store = replace(rocks_store("10_az 30_az sa", ids=ids), since=9)
    found = plan(rocks_checkpoint(store, batches=range(25, 30)), Policy(), NOW)
    (foreign,) = [one for one in found.findings if one.code is FindingCode.FOREIGN_MAINTAINER]
    assert "30_a.zip and 1 more snapshots were written by executors" in foreign.detail
    assert "minDeltasForSnapshot to 500 for" in foreign.detail
