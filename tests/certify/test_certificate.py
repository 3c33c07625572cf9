"""The crash certificate: 2,000 schedules, a state machine over the same steps, and the mutants."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from statemaint.model.policy import Policy
from tests.certify.__main__ import BEGIN, DOCUMENT, END, play
from tests.certify.files import UnreadableError, decode, encode, load_all
from tests.certify.judge import Loss
from tests.certify.maintainer import Halt, Stop
from tests.certify.mutants import MOST, MUTANTS, Mutant, hunt
from tests.certify.query import Habits
from tests.certify.schedule import run
from tests.certify.stage import Setting, Stage
from tests.support.checkpoints import delta_bytes

_CHUNK = 250


@pytest.mark.parametrize("chunk", range(8))
def test_no_schedule_loses_anything(chunk: int) -> None:
    counts = play(tuple(range(chunk * _CHUNK, (chunk + 1) * _CHUNK)))
    assert [(one.seed, one.loss) for one in counts.found] == []
    stops = [sum(n for at, n in counts.tally.items() if at.startswith(how)) for how in _STOPS]
    assert min(stops) > 0  # they were stopped where it matters
    assert counts.tally["deletions"] > 1000  # and had something to lose


_STOPS = ("crash at publish", "crash at delete", "pause at")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_a_broken_maintainer_is_caught(mutant: Mutant) -> None:
    assert hunt(mutant, MOST)


def test_mutants_are_mended_again() -> None:
    for mutant in MUTANTS:
        before = [vars(owner)[name] for owner, name, _ in mutant.changes]
        with mutant.alive():
            assert [vars(owner)[name] for owner, name, _ in mutant.changes] != before
        assert [vars(owner)[name] for owner, name, _ in mutant.changes] == before


def test_a_seed_is_a_schedule() -> None:
    first: list[str] = []
    again: list[str] = []
    assert run(11, log=first) == run(11, log=again)
    assert first == again
    assert len(first) > 30


def test_the_document_has_a_place_for_the_counts() -> None:
    assert DOCUMENT.read_text().index(BEGIN) < DOCUMENT.read_text().index(END)


def test_the_certificates_own_reader_and_writer_agree_with_ours() -> None:
    rows = [(b"a", b"1"), (b"b", None), (b"a", b"2" * 300)]
    assert decode(delta_bytes(rows)) == tuple(rows)
    assert encode(rows) == delta_bytes(rows)
    with pytest.raises(UnreadableError):
        decode(encode(rows)[:-30])


def test_loading_begins_at_the_newest_snapshot() -> None:
    deltas = {f"{one}.delta": encode([(b"k", bytes([one]))]) for one in (1, 2, 4, 5)}
    store = {**deltas, "4.snapshot": encode([(b"s", b"4")]), ".5.delta.x.tmp": b"", "a.b": b""}
    assert load_all(store) == {
        1: {b"k": b"\1"}, 2: {b"k": b"\2"}, 4: {b"s": b"4"}, 5: {b"s": b"4", b"k": b"\5"},
    }  # fmt: skip


NUMBERS = st.integers(0, 7)
POLICIES = st.builds(
    Policy,
    min_deltas_for_snapshot=st.integers(1, 4),
    min_batches_to_retain=st.integers(1, 4),
    grace=st.sampled_from([0.0, 30.0]),
    orphan_age=st.sampled_from([0.0, 60.0]),
    rebase=st.booleans(),
    max_deletes_per_run=st.sampled_from([2, 1000]),
)
HALTS = st.builds(
    Halt,
    st.sampled_from(Stop),
    st.integers(0, 60),
    st.sampled_from(["", "", "read", "open", "publish", "written", "append", "delete"]),
)
HABITS = st.builds(
    Habits,
    stores=st.sampled_from([("state/0/0",), ("state/0/0", "state/0/1")]),
    min_deltas=st.integers(1, 4),
    retain=st.integers(1, 4),
    in_executor=st.booleans(),
    side_files=st.booleans(),
    checksums=st.booleans(),
)


class Told:
    """A stage whose losses are failures of a test, which Hypothesis shrinks."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._stage, name)
        return self._told(found) if callable(found) else found

    @staticmethod
    def _told(step: Callable[..., None]) -> Callable[..., None]:
        def told(*args: object, **named: object) -> None:
            try:
                step(*args, **named)
            except Loss as loss:
                raise AssertionError(str(loss)) from None

        return told


class Machine(RuleBasedStateMachine):
    """The steps of the schedules, drawn by Hypothesis, which shrinks what it finds."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Told(Stage(Setting(), Random(0)))  # noqa: S311 -- no secret depends on it

    @initialize(habits=HABITS, local=st.booleans(), seed=NUMBERS)
    def begin(self, habits: Habits, seed: int, *, local: bool) -> None:
        setting = Setting(habits, local=local)
        self.stage = Told(Stage(setting, Random(seed)))  # noqa: S311 -- as above
        self.stage.batch()

    @rule(count=st.integers(1, 3))
    def batch(self, count: int) -> None:
        self.stage.batch(count)

    @rule(number=NUMBERS)
    def part(self, number: int) -> None:
        self.stage.part(number)

    @rule(number=NUMBERS, tidy=st.booleans())
    def abort(self, number: int, *, tidy: bool) -> None:
        self.stage.abort(number, tidy=tidy)

    @rule(number=NUMBERS)
    def zombie(self, number: int) -> None:
        self.stage.linger(number)

    @rule(number=NUMBERS)
    def land(self, number: int) -> None:
        self.stage.land(number)

    @rule()
    def restart(self) -> None:
        self.stage.restart()

    @rule(back=NUMBERS, tidy=st.booleans())
    def rewind(self, back: int, *, tidy: bool) -> None:
        self.stage.rewind(back, tidy=tidy)

    @rule(number=NUMBERS)
    def spark_snapshot(self, number: int) -> None:
        self.stage.spark_snapshot(number)

    @rule(number=NUMBERS)
    def spark_cleanup(self, number: int) -> None:
        self.stage.spark_cleanup(number)

    @rule(seconds=st.sampled_from([1, 29, 100]))
    def wait(self, seconds: int) -> None:
        self.stage.wait(seconds)

    @rule(number=NUMBERS, back=NUMBERS)
    def read(self, number: int, back: int) -> None:
        self.stage.read(number, back)

    @rule(number=NUMBERS, cut=st.booleans())
    def poison(self, number: int, *, cut: bool) -> None:
        self.stage.poison(number, cut=cut)

    @rule(policy=POLICIES, halt=HALTS)
    def maintain(self, policy: Policy, halt: Halt) -> None:
        self.stage.maintain(policy, halt)

    @precondition(lambda self: self.stage.paused)
    @rule(number=NUMBERS, halt=HALTS)
    def resume(self, number: int, halt: Halt) -> None:
        self.stage.resume(self.stage.paused[number % len(self.stage.paused)], halt)

    @rule(policy=POLICIES)
    def settle(self, policy: Policy) -> None:
        self.stage.settle(policy.override(max_deletes_per_run=1000))

    def teardown(self) -> None:
        self.stage.close()


def test_a_loss_is_no_error_that_anything_catches() -> None:
    assert not issubclass(Loss, Exception)


def test_the_state_machine_catches_a_broken_maintainer() -> None:
    few = settings(_SETTINGS, derandomize=True, database=None, phases=[Phase.generate])
    with MUTANTS[0].alive(), pytest.raises(AssertionError, match=r"^S\d"):
        run_state_machine_as_test(Machine, settings=few)


_SETTINGS = settings(stateful_step_count=30, deadline=None)
TestMachine = Machine.TestCase
TestMachine.settings = _SETTINGS
