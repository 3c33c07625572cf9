"""Which zip and changelogs load a version with unique ids."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.listing import Entry
from statemaint.model.chain import Chain, Versions
from statemaint.model.files import Delta, Snapshot, StateFile
from statemaint.model.lineage import Attempts, Item, Lineages, Lost, leads_nowhere
from statemaint.model.rocks import Rocks


def files(notation: str) -> list[StateFile]:
    """Returns files of names like `20_d8.zip` and `21_f4.changelog`."""
    found: list[StateFile] = []
    for name in notation.split():
        stem, _, kind = name.partition(".")
        version, _, unique = stem.partition("_")
        make = Snapshot if kind == "zip" else Delta
        found.append(make(int(version), Entry(f"state/0/0/{name}", 100, 1.0), unique))
    return found


def chain(attempts: Attempts, item: Item) -> Chain | Lost:
    return attempts.chain(attempts.trace(item))


def loads(found: Chain | Lost) -> list[str]:
    assert isinstance(found, Chain), found
    return [path.removeprefix("state/0/0/") for path in found.paths]


EXAMPLE = (
    "20_d8.changelog 20_d8.zip 21_ef.changelog 21_f4.changelog 22_44.changelog 23_68.changelog"
)
UP_TO_22 = ((20, "d8"), (21, "f4"), (22, "44"))
LINEAGES = {(23, "68"): UP_TO_22}


def test_a_zip_of_the_version_itself_is_loaded_alone() -> None:
    found = chain(Attempts(files("22_B.changelog 23_A.changelog 23_A.zip"), {}), (23, "A"))
    assert loads(found) == ["23_A.zip"]


def test_the_lineage_says_which_attempts_lie_between_the_zip_and_the_version() -> None:
    found = chain(Attempts(files(EXAMPLE), LINEAGES), (23, "68"))
    assert loads(found) == ["20_d8.zip", "21_f4.changelog", "22_44.changelog", "23_68.changelog"]


def test_the_files_of_another_attempt_at_the_version_change_nothing() -> None:
    beside = files(f"{EXAMPLE} 23_82.changelog 23_82.zip")
    found = chain(Attempts(beside, LINEAGES), (23, "68"))
    assert loads(found) == ["20_d8.zip", "21_f4.changelog", "22_44.changelog", "23_68.changelog"]


def test_of_two_whole_attempts_only_the_committed_one_counts() -> None:
    both = files("22_44.zip 23_68.changelog 23_68.zip 23_82.changelog 23_82.zip")
    attempts = Attempts(both, {(23, "68"): ((22, "44"),), (23, "82"): ((22, "44"),)})
    assert loads(chain(attempts, (23, "82"))) == ["23_82.zip"]
    assert loads(chain(attempts, (23, "68"))) == ["23_68.zip"]


def test_a_changelog_that_was_read_is_not_asked_for_again() -> None:
    alone = files("5_a.changelog")
    assert Attempts(alone, {}).trace((5, "a")).unread == alone[0]
    assert Attempts(alone, {(5, "a"): ()}).trace((5, "a")).unread is None


def test_a_lineage_that_ends_where_no_zip_arrived_goes_on_in_that_versions_own_changelog() -> None:
    seen = files(f"{EXAMPLE} 24_32.changelog")
    lineages: Lineages = {(24, "32"): ((23, "68"),)}
    needed = Attempts(seen, lineages).trace((24, "32")).unread
    assert needed is not None
    assert needed.entry.name == "23_68.changelog"
    found = chain(Attempts(seen, {**lineages, **LINEAGES}), (24, "32"))
    assert loads(found) == [
        "20_d8.zip",
        "21_f4.changelog",
        "22_44.changelog",
        "23_68.changelog",
        "24_32.changelog",
    ]


def test_the_first_version_begins_at_nothing() -> None:
    seen = files("1_a.changelog 2_b.changelog")
    found = chain(Attempts(seen, {(2, "b"): ((1, "a"),)}), (2, "b"))
    assert loads(found) == ["1_a.changelog", "2_b.changelog"]


def test_an_id_that_no_file_has_is_lost() -> None:
    assert chain(Attempts(files(EXAMPLE), LINEAGES), (24, "32")) == Lost(
        (24, "32"), "it has neither a zip nor a changelog"
    )


def test_a_lineage_whose_changelog_is_gone_is_lost() -> None:
    seen = files(EXAMPLE.replace("22_44.changelog", ""))
    found = chain(Attempts(seen, LINEAGES), (23, "68"))
    assert found == Lost((22, "44"), "it has neither a zip nor a changelog")


def test_a_lineage_with_a_gap_is_lost() -> None:
    seen = files("20_d8.zip 23_68.changelog")
    found = chain(Attempts(seen, {(23, "68"): ((20, "d8"),)}), (23, "68"))
    assert found == Lost((23, "68"), "nothing leads to it but (20, 'd8')")


def test_lineages_that_disagree_are_believed_neither_way() -> None:
    seen = files("20_d8.zip 21_ef.changelog 21_f4.changelog 22_44.changelog 23_68.changelog")
    lineages = {(23, "68"): UP_TO_22, (22, "44"): ((20, "d8"), (21, "ef"))}
    found = chain(Attempts(seen, lineages), (23, "68"))
    assert found == Lost((22, "44"), "two lineages disagree on it")


def test_a_lineage_that_begins_nowhere_is_lost() -> None:
    found = chain(Attempts(files("9_a.changelog"), {(9, "a"): ()}), (9, "a"))
    assert found == Lost((9, "a"), "it has no zip, and nothing records what came before")


def test_a_commit_says_what_came_before_a_forced_snapshot_that_has_no_changelog() -> None:
    seen = files("7_a.changelog 8_b.zip 9_c.changelog")
    committed = {7: "a", 8: "b", 9: "c"}
    trace = Attempts(seen, {(9, "c"): ((8, "b"),)}, committed).trace((9, "c"))
    assert trace.items == ((9, "c"), (8, "b"), (7, "a"))
    assert trace.unread is not None
    assert trace.unread.entry.name == "7_a.changelog"
    without = Attempts(seen, {(9, "c"): ((8, "b"),)}).trace((9, "c"))
    assert without.items == ((9, "c"), (8, "b"))
    assert without.unread is None


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[StateFile], Lineages, Item]:
    """Returns a line of attempts with dead ones beside it; some files are missing."""
    last = draw(st.integers(1, 9))
    line = [(version, f"{version}a") for version in range(1, last + 1)]
    lineages: dict[Item, tuple[Item, ...]] = {}
    names = []
    for version, unique in line:
        start = draw(st.integers(1, version))
        lineages[version, unique] = tuple(line[start - 1 : version - 1]) or tuple(
            line[version - 2 : version - 1]
        )
        if draw(st.integers(0, 5)):
            names.append(f"{version}_{unique}.changelog")
        if not draw(st.integers(0, 3)):
            names.append(f"{version}_{unique}.zip")
        if not draw(st.integers(0, 2)):
            names += [f"{version}_{version}b.changelog", f"{version}_{version}b.zip"]
    return files(" ".join(names)), lineages, line[-1]


@given(histories())
def test_what_the_planner_sees_by_version_is_what_the_lineage_loads(
    history: tuple[list[StateFile], Lineages, Item],
) -> None:
    seen, lineages, item = history
    attempts = Attempts(seen, lineages)
    trace = attempts.trace(item)
    rocks = Rocks(ids=dict(trace.items))
    versions = Versions.of(rocks.sound(seen))
    assert trace.begins
    for one in trace.items:
        by_version, by_lineage = versions.chain(one[0]), chain(attempts, one)
        assert isinstance(by_version, Chain) == isinstance(by_lineage, Chain)
        if isinstance(by_version, Chain):
            assert by_version == by_lineage


def names(found: Iterable[StateFile]) -> list[str]:
    return [file.entry.name for file in found]


def test_versions_without_ids_count_below_the_first_id_and_above_the_last() -> None:
    plain = [Delta(version, Entry(f"{version}.changelog", 1, 1.0)) for version in range(3, 8)]
    both = [*plain, Delta(5, Entry("5_x.changelog", 1, 1.0), "x")]
    assert names(Rocks(ids={5: "x"}, plain=4).loaded(both)) == [
        "3.changelog",
        "4.changelog",
        "6.changelog",
        "7.changelog",
        "5_x.changelog",
    ]
    assert names(Rocks(ids={5: "x"}).loaded(both)) == [
        "6.changelog",
        "7.changelog",
        "5_x.changelog",
    ]
    assert names(Rocks().loaded(both)) == names(plain)


@pytest.mark.parametrize(
    ("notation", "zips", "why"),
    [
        ("1_a 2_b", (), None),
        ("", (), None),
        ("4_d 5_e", (4,), None),
        ("2_b 1_a", (), None),  # as Spark does, whatever their order is
        ("4_d 5_e", (), "begins with version 4, and none in it has a zip"),
        ("1_a 3_c", (), "has a gap"),
        ("1_a 2_x", (), "names x at version 2, which does not count"),
    ],
)
def test_spark_asks_the_lineage_of_a_version_in_its_own_changelog_alone(
    notation: str, zips: tuple[int, ...], why: str | None
) -> None:
    """`RocksDB.loadWithCheckpointId`."""
    pairs = [one.split("_") for one in notation.split()]
    lineage = [(int(version), unique) for version, unique in pairs]
    item = max((version for version, _ in lineage), default=0) + 1, "own"
    ids = {1: "a", 2: "b", 3: "c", 4: "d", 5: "e", item[0]: "own"}
    found = leads_nowhere(item, lineage, ids, zips)
    assert found is None if why is None else why in str(found)


def test_where_zips_are_left_out_a_lineage_may_begin_anywhere() -> None:
    """From 4.2 on Spark looks for an older zip where those of the lineage do not load."""
    ids = {4: "d", 5: "e", 6: "own"}
    assert leads_nowhere((6, "own"), [(4, "d"), (5, "e")], ids, None) is None
    assert leads_nowhere((6, "own"), [(4, "d"), (5, "e")], ids, ()) is not None
    assert leads_nowhere((6, "own"), [(4, "x"), (5, "e")], ids, None) is not None


def test_a_version_without_an_id_counts_as_the_lineage_says() -> None:
    assert leads_nowhere((2, "b"), [(1, "a")], {}, None) is None
    assert leads_nowhere((2, "b"), [(1, "a")], {1: "z"}, None) == (
        "its lineage names a at version 1, which does not count"
    )


@pytest.mark.parametrize(
    ("first", "zips", "reason"),
    [
        (1, (), None),
        (2, (), "its lineage begins with version 2, and none in it has a zip"),
        (2, (2,), None),
        (3, (2,), "its lineage begins with version 3, and none in it has a zip"),
    ],
)
def test_a_lineage_begins_with_a_zip_or_with_nothing(
    first: int, zips: tuple[int, ...], reason: str | None
) -> None:
    assert leads_nowhere((first, "a"), [], {first: "a"}, zips) == reason
