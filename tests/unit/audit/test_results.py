"""What one verification takes over from another, and what it reads again."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from statemaint.audit import doctor
from statemaint.audit.rebuild import Depth, _without_frames
from statemaint.audit.results import Results, StoreResult, UnitResult
from statemaint.audit.verify import Verification, verify_at
from statemaint.errors import CodecError
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.storage import MemoryStorage, Without
from tests.support.checkpoints import snapshot_bytes, state_at, write_checkpoint
from tests.support.faults import HookedStorage, Ticking

FIRST, SECOND = Store(StoreId(0, 0)), Store(StoreId(0, 1))


def example() -> tuple[HookedStorage, str]:
    """Two partitions, and a snapshot in the first of them; each file has a time of its own."""
    storage, path = HookedStorage(clock=Ticking()), "state/0/0/20.snapshot"
    write_checkpoint(storage)
    storage.write(path, [snapshot_bytes(state_at(20))])
    return storage, path


def look(storage: MemoryStorage, known: Results | None = None, *hidden: str) -> Verification:
    view = Without(storage, hidden)
    return verify_at(view, Depth.ROWS, known=known) if known else verify_at(view, Depth.ROWS)


def opened_by(storage: HookedStorage, known: Results, *hidden: str) -> set[str]:
    """Returns the partitions whose files are read, with the same findings as without `known`."""
    afresh = look(storage, None, *hidden)
    expected = afresh.versions_checked, afresh.findings
    storage.calls.clear()
    found = look(storage, known, *hidden)
    assert (found.versions_checked, found.findings) == expected
    return {path.rpartition("/")[0] for path in storage.paths("open")}


def test_an_unchanged_checkpoint_is_not_read_again() -> None:
    storage, _ = example()
    assert opened_by(storage, look(storage).results) == set()


def test_without_a_file_only_its_partition_is_read_again() -> None:
    storage, path = example()
    assert opened_by(storage, look(storage).results, path) == {"state/0/0"}


def test_results_that_were_taken_over_are_handed_on() -> None:
    storage, path = example()
    without = look(storage, look(storage).results, path)
    assert opened_by(storage, without.results, path) == set()
    assert opened_by(storage, without.results) == {"state/0/0"}


def test_a_file_that_was_written_again_is_read_again() -> None:
    storage, path = example()
    known = look(storage).results
    storage.write(path, [snapshot_bytes(state_at(19))], overwrite=True)
    assert opened_by(storage, known) == {"state/0/0"}


def test_another_commit_makes_everything_read_again() -> None:
    storage, _ = example()
    known = look(storage).results
    storage.delete("commits/16")
    storage.delete("offsets/16")
    assert opened_by(storage, known) == {"state/0/0", "state/0/1"}


def test_another_depth_takes_nothing_over() -> None:
    results = Results.of(Checkpoint("memory:"), Depth.CHAINS, [StoreResult(FIRST, True, 1, ())], ())
    assert results.valid(Checkpoint("memory:"), Depth.CHAINS) is results
    assert results.valid(Checkpoint("memory:"), Depth.ROWS).store(FIRST, lineages=True) is None


def of_code(code: FindingCode, *, lineages: bool = True) -> StoreResult:
    return StoreResult(FIRST, lineages, 1, (Finding(code, "", FIRST.id),))


def test_a_lineage_that_holds_with_zips_holds_without() -> None:
    whole, broken = of_code(FindingCode.CORRUPT_FILE), of_code(FindingCode.LINEAGE_BROKEN)
    assert whole.holds(FIRST, lineages=False)
    assert broken.holds(FIRST, lineages=True)
    assert not broken.holds(FIRST, lineages=False)
    assert not of_code(FindingCode.CORRUPT_FILE, lineages=False).holds(FIRST, lineages=True)


def test_what_was_replaced_while_it_was_read_is_read_again() -> None:
    assert not of_code(FindingCode.SUPERSEDED).holds(FIRST, lineages=True)
    assert UnitResult((FIRST,), (), (), read=True).holds((FIRST,))
    assert not UnitResult((FIRST,), (), (), read=False).holds((FIRST,))


def test_rows_are_read_again_for_any_store_of_their_partition() -> None:
    left, right = Store(StoreId(0, 0, "left")), Store(StoreId(0, 0, "right"))
    unit = UnitResult((left, right), (), (), read=True)
    assert unit.holds((replace(left, listed=2.0), right))
    assert not unit.holds((left, replace(right, since=2)))
    assert not unit.holds((left,))
    assert Results(units={unit.id: (unit,)}).unit((SECOND,)) is None


def test_an_error_that_is_kept_holds_no_frame_of_its_reader() -> None:
    """Frames hold the bytes that were read, and a run keeps an error for each damaged file."""

    def read(content: bytes) -> None:
        try:
            int(content)
        except ValueError as error:
            raise CodecError("cut short", offset=3, path="x.delta") from error

    with pytest.raises(CodecError) as caught:
        read(b"x" * 1000)
    kept = _without_frames(caught.value)
    assert (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)
    assert str(kept) == "x.delta: cut short (at byte 3)"


def test_results_with_and_without_a_file_are_held_together() -> None:
    storage, path = example()
    whole = look(storage).results
    both = whole + look(storage, whole, path).results
    assert opened_by(storage, both) == set()
    assert opened_by(storage, both, path) == set()
    other = Results.of(Checkpoint("memory:"), Depth.CHAINS, [StoreResult(FIRST, True, 1, ())], ())
    assert both + other is both


# -- how often a file is read


def files_opened(storage: HookedStorage, read: Callable[[MemoryStorage], object]) -> Counter[str]:
    storage.calls.clear()
    read(storage)
    return Counter(path for path in storage.paths("open") if path.startswith("state/"))


def test_a_deep_look_decodes_each_file_once_and_folds_what_a_snapshot_is_compared_with() -> None:
    storage, path = example()
    opened = files_opened(storage, look)
    below = {f"state/0/0/{version}.delta" for version in range(1, 21)}
    deltas = {name for name in storage.files if name.endswith(".delta")}
    assert opened == {path: 1, **{name: 1 + (name in below) for name in deltas}}


def test_files_that_no_retained_version_needs_are_read_all_the_same() -> None:
    storage, _ = example()
    storage.write("state/0/1/19.snapshot", [snapshot_bytes(state_at(19))])
    for version in (17, 18, 19, 20):
        storage.delete(f"commits/{version - 1}")
        storage.delete(f"offsets/{version - 1}")
    storage.write("state/0/1/3.delta", [b"LZ4Block"], overwrite=True)
    assert "state/0/1/3.delta" in {one.path for one in look(storage).findings}


def test_doctor_reads_only_the_store_of_a_bad_snapshot_a_second_time() -> None:
    storage, path = example()
    sound = files_opened(storage, doctor)
    storage.write(path, [snapshot_bytes(state_at(20))[:-30]], overwrite=True)
    found = files_opened(storage, lambda one: doctor(one, workers=2))
    assert doctor(storage).passed_over == (path,)
    others = {name: count for name, count in found.items() if not name.startswith("state/0/0/")}
    assert others == {name: sound[name] for name in others}
    assert found["state/0/0/21.delta"] > 1
