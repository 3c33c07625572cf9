"""What is missing from the logs, told by the names that are left."""

import pytest

from statemaint.maintain import verify
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import FindingCode
from statemaint.plan import diagnose_logs
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.unit.test_logs import OPERATOR


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
    storage.write("state/0/_stateSchema/default/0_some-id", [b"not read here"])
    assert verify(storage).findings == ()
