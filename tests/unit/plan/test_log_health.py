"""What is missing from the logs, told by the names that are left."""

import pytest

from statemaint.audit import verify
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import FindingCode
from statemaint.plan import diagnose_logs
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.unit.codec.metadata.test_logs import OPERATOR


def lost(*, commits: str, offsets: str) -> list[str]:
    logs = {"batches": commits, "offsets": offsets}
    numbers = {name: tuple(map(int, text.split())) for name, text in logs.items()}
    return [str(one.path) for one in diagnose_logs(Checkpoint("memory:", **numbers))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("commits", "offsets"),
    [
        ("", ""),
        ("", "0"),
        ("0", "0"),
        ("0", "0 1"),
        ("7 8 9", "7 8 9"),
        ("7 8 9", "7 8 9 10"),
        ("7 8 9", "8 9"),
        ("8 9", "7 8 9"),
        ("8 9", "6 7 8 9 10"),
    ],
)
def test_what_purging_and_a_running_batch_leave_is_in_order(commits: str, offsets: str) -> None:
    assert lost(commits=commits, offsets=offsets) == []


@pytest.mark.parametrize(
    ("commits", "offsets", "missing"),
    [
        ("7 9", "7 8 9", ["commits/8"]),
        ("7 8", "7 8 9 10", ["commits/9"]),
        ("7 8 9", "7 9", ["offsets/8"]),
        ("7 8 9", "7 8", ["offsets/9"]),
        ("8 9", "9", ["offsets/8"]),
        ("9", "10", ["offsets/9"]),
        ("6 7 8 9", "6 8 9", ["offsets/7"]),
        (
            "5 9",
            "5 9",
            ["commits/6", "commits/7", "commits/8", "offsets/6", "offsets/7", "offsets/8"],
        ),
    ],
)
def test_a_hole_is_named(commits: str, offsets: str, missing: list[str]) -> None:
    assert lost(commits=commits, offsets=offsets) == missing


def test_only_the_newest_two_offsets_stop_a_restart() -> None:
    found = diagnose_logs(Checkpoint("memory:", batches=(6, 7, 8), offsets=(5, 7)))
    assert ["a restart fails" in one.detail for one in found] == [False, True]


def test_a_hole_that_is_filled_at_a_second_look_was_none() -> None:
    class Late(MemoryStorage):
        """The listing of a query that purges: an entry in the middle goes first."""

        looks = 0

        def list(self, folder):  # type: ignore[no-untyped-def]
            found = list(super().list(folder))
            if folder == "commits":
                self.looks += 1
                if self.looks == 1:
                    found = [one for one in found if one.path != "commits/18"]
            return iter(found)

    storage = Late()
    write_checkpoint(storage)
    assert verify(storage).findings == ()
    assert storage.looks > 1
    storage.delete("commits/18")
    assert [one.path for one in verify(storage).findings] == ["commits/18"]


def test_a_schema_that_the_operators_metadata_promises_is_missed() -> None:
    storage = MemoryStorage()
    write_checkpoint(storage)
    storage.write("state/0/_metadata/metadata", [OPERATOR])
    found = verify(storage)
    assert [one.code for one in found.findings] == [FindingCode.MISSING_SCHEMA]
    assert found.findings[0].path == "state/0/0/_metadata/schema"
    assert not found.healthy
    storage.write(
        "state/0/_stateSchema/default/0_0f6d2b1c-5a3e-4c7d-9b8a-112233445566", [b"not read here"]
    )
    assert verify(storage).findings == ()


@pytest.mark.parametrize("stray", [1_000_000, 20_261_122, 10**14, 2**63 - 2])
def test_a_commit_far_above_the_others_is_no_more_work(stray: int) -> None:
    storage = MemoryStorage()
    write_checkpoint(storage)
    storage.write(f"commits/{stray}", [storage.read("commits/24")])
    found = verify(storage).findings
    assert [(one.code, one.path) for one in found] == [
        (FindingCode.MISSING_COMMIT, "commits/25"),
        (FindingCode.MISSING_OFFSET, f"offsets/{stray}"),
        (FindingCode.BROKEN_CHAIN, "state/0/0/26.delta"),
        (FindingCode.BROKEN_CHAIN, "state/0/1/26.delta"),
    ]
    assert found[0].detail.startswith(
        f"all of commits/25 to commits/{stray - 1} are missing, {stray - 25:,} files: "
        "nothing shows "
    )
    assert "a restart fails" in found[1].detail
    assert found[2].batches == (stray,)


def test_a_name_beyond_the_numbers_of_spark_is_no_batch() -> None:
    storage = MemoryStorage()
    write_checkpoint(storage)
    for number in (2**63 - 1, 2**63, 10**30, 10**200):
        storage.write(f"commits/{number}", [b""])
        storage.write(f"offsets/{number}", [b""])
    assert verify(storage).findings == ()


def test_a_wide_gap_below_the_newest_two_stops_no_restart() -> None:
    logs = Checkpoint("memory:", batches=(1, 999, 1000), offsets=(1, 999, 1000))
    missing = {one.path: one.detail.partition(";")[0] for one in diagnose_logs(logs)}
    assert list(missing) == ["commits/2", "offsets/998"]
    assert missing["commits/2"] == (
        "all of commits/2 to commits/998 are missing, 997 files: nothing shows whether "
        "batches 2 to 998 were committed, and the state is not offered to readers"
    )
    assert missing["offsets/998"] == (
        "all of offsets/2 to offsets/998 are missing, 997 files: the query cannot go back to "
        "any of batches 2 to 998"
    )
