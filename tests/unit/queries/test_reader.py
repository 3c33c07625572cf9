import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.queries.memory import FileMemory, MemoryFile
from statemaint.queries.problems import Problem
from statemaint.queries.reading import SETTLED, QueriesReader, QueriesReading, read_queries

GOOD = """defaults: {grace: 15m}
pushgateway: http://gateway:9091
queries:
  a: {checkpoint: /data/a}
  b:
    checkpoint: /data/b
    schedule: "@hourly"
  c: {checkpoint: /data/c, policy: {grace: 2h}}
  d: {checkpoint: /data/d, policy: {preset: lean}}
"""
TIME = 1_795_000_000.0
SINCE = "(its last good version is used, since 2026-11-18 11:06:40 UTC)"


class Fixture:
    """A queries file, a clock, and a reader that has read the file once."""

    def __init__(self, path: Path, text: str = GOOD) -> None:
        self.path, self.now = path, TIME
        path.write_text(text, encoding="utf-8")
        self.reader = QueriesReader(path, clock=lambda: self.now)
        assert not self.reader.read().all_problems

    def write(self, text: str) -> QueriesReading:
        self.path.write_text(text, encoding="utf-8")
        return self.reader.read()


@pytest.fixture
def file(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path / "queries.yaml")


def lines(reading: QueriesReading) -> list[str]:
    return [str(one) for one in reading.all_problems]


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.write_text(""), "was cut: 0 of 244 characters are left; write it again"),
        (lambda path: path.write_text("# all gone\n"), "must be a mapping with the key"),
        (lambda path: path.write_text("queries:\n"), "queries: must be a mapping, not null"),
        (lambda path: path.write_text("query: {}\n"), "query: no such key; the keys are"),
        (lambda path: path.write_text("queries: [\n"), "expected the node content"),
        (lambda path: path.write_bytes(b"queries: \xff"), "not UTF-8 text at byte 9"),
        (Path.unlink, "cannot be read (No such file or directory)"),
        (replaced_by_a_folder, "has no file *.yaml; for no queries, write one with `queries: {}`"),
    ],
)
def test_a_file_that_cannot_be_read_counts_as_it_was(
    file: Fixture, harm: Callable[[Path], object], said: str
) -> None:
    before = file.reader.read()
    harm(file.path)
    for _ in range(3):
        after = file.reader.read()
        assert after.queries == before.queries
        assert after.policy_of("c") == before.policy_of("c")
        assert after.usable
        assert any(said in one and one.endswith(SINCE) for one in lines(after))
        file.now += 10 * SETTLED


def test_without_a_last_good_version_an_empty_file_has_no_query_and_a_problem(
    tmp_path: Path,
) -> None:
    path = tmp_path / "queries.yaml"
    path.write_text("")
    reading = read_queries(path)
    assert (reading.queries, reading.usable) == ({}, False)
    assert [one.kept for one in reading.all_problems] == [None]


def test_a_file_that_can_be_read_again_has_no_problem(file: Fixture) -> None:
    file.write("")
    reading = file.write(GOOD.replace("15m", "20m"))
    assert not reading.all_problems
    assert reading.policy_of("a").grace == 1200.0


def test_no_queries_on_purpose_is_an_empty_mapping_that_stays_for_a_minute(file: Fixture) -> None:
    assert list(file.write("queries: {}\n").queries) == ["a", "b", "c", "d"]
    file.now += SETTLED
    reading = file.reader.read()
    assert (reading.queries, reading.all_problems, reading.usable) == ({}, (), True)


def test_an_entry_that_is_taken_out_goes_once_the_file_is_unchanged_for_a_minute(
    file: Fixture,
) -> None:
    without = GOOD.replace("  a: {checkpoint: /data/a}\n", "")
    assert "a" in file.write(without).queries
    file.now += SETTLED - 1
    assert "a" in file.write(without + "# still writing\n").queries
    file.now += SETTLED
    reading = file.reader.read()
    assert list(reading.queries) == ["b", "c", "d"]
    assert not reading.all_problems


@given(length=st.integers(0, len(GOOD) - 1))
def test_a_file_that_is_cut_anywhere_counts_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    file = Fixture(tmp_path_factory.mktemp("cut") / "queries.yaml")
    before = file.reader.read()
    after = file.write(GOOD[:length])
    assert after.queries == before.queries
    assert all(after.policy_of(one) == before.policy_of(one) for one in before.queries)


@given(length=st.integers(0, len(GOOD) - 1))
def test_a_newer_version_that_is_cut_anywhere_loses_no_query(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    file = Fixture(tmp_path_factory.mktemp("cut") / "queries.yaml")
    after = file.write(GOOD.replace("15m", "16m")[:length])
    assert set(after.queries) == set("abcd")


def test_a_cut_file_is_a_problem_for_as_long_as_it_is_cut(file: Fixture) -> None:
    for _ in range(3):
        reading = file.write(GOOD[: GOOD.index("/data/b")])
        assert list(reading.queries) == ["a", "b", "c", "d"]
        file.now += 10 * SETTLED
        assert "was cut: 113 of 244 characters are left; write it again" in lines(reading)[0]
        assert lines(reading)[0].endswith(SINCE)


def test_the_last_entry_is_taken_out_of_a_file_that_has_a_mistake_elsewhere(file: Fixture) -> None:
    text = GOOD.replace("/data/a", "data/a")
    file.write(text)
    file.write(text[: text.index("  d:")])
    file.now += SETTLED
    reading = file.reader.read()
    assert sorted(reading.queries) == ["a", "b", "c"]
    assert [one.entry for one in reading.all_problems] == ["a"]


def test_an_entry_with_a_mistake_keeps_its_last_good_version(file: Fixture) -> None:
    text = GOOD.replace("grace: 2h", "grcae: 2h").replace("/data/a}", "/data/a, max_tasks: 3}")
    reading = file.write(text)
    assert list(reading.queries) == ["a", "b", "d", "c"]
    assert reading.queries["a"].max_tasks == 3
    assert reading.policy_of("c").grace == 7200.0
    (problem,) = reading.all_problems
    assert (problem.line, problem.entry, problem.kept) == (8, "c", TIME)
    assert [one.kept for one in reading.broken] == [True]
    file.now += 3600.0
    assert file.write(text + "# more\n").all_problems[0].kept == TIME


def test_a_new_entry_with_a_mistake_stands_alone(file: Fixture) -> None:
    reading = file.write(GOOD + "  e: {checkpoint: e}\n")
    assert list(reading.queries) == ["a", "b", "c", "d"]
    assert [(one.name, one.kept) for one in reading.broken] == [("e", False)]
    assert [one.kept for one in reading.all_problems] == [None]


@pytest.mark.parametrize(
    ("mistake", "concerned"),
    [("grace: soon", "ab"), ("grace: 15m, orphan_age: -1", "abc"), ("garce: 15m", "abc")],
)
def test_a_mistake_in_the_defaults_concerns_the_entries_that_take_them(
    tmp_path: Path, mistake: str, concerned: str
) -> None:
    text = GOOD.replace("grace: 15m", mistake)
    file = tmp_path / "fresh.yaml"
    file.write_text(text, encoding="utf-8")
    assert set(read_queries(file).queries) == set("abcd") - set(concerned)
    long_running = Fixture(tmp_path / "queries.yaml")
    reading = long_running.write(text.replace("/data/", "/moved/"))
    assert {name: one.checkpoint for name, one in reading.queries.items()} == {
        name: f"/data/{name}" if name in concerned else f"/moved/{name}" for name in "abcd"
    }
    assert reading.policy_of("a").grace == 900.0
    (problem,) = reading.all_problems
    assert (problem.line, problem.kept) == (1, TIME)


def test_a_setting_of_the_file_with_a_mistake_keeps_its_last_good_value(file: Fixture) -> None:
    reading = file.write(GOOD.replace("http://gateway:9091", "gateway"))
    assert reading.settings_of("a").pushgateway == "http://gateway:9091"
    assert list(reading.queries) == ["a", "b", "c", "d"]
    assert reading.all_problems[0].kept == TIME


def test_a_query_keeps_its_checkpoint_when_another_entry_takes_it(file: Fixture) -> None:
    reading = file.write(GOOD + "  thief: {checkpoint: /data/a}\n")
    assert reading.queries["a"].checkpoint == "/data/a"
    assert "thief" not in reading.queries


def test_a_last_good_version_is_not_used_beside_a_valid_entry_of_its_checkpoint(
    file: Fixture,
) -> None:
    text = GOOD.replace("/data/a}", "data/a}") + "  heir: {checkpoint: /data/a/new}\n"
    reading = file.write(text)
    assert sorted(reading.queries) == ["b", "c", "d", "heir"]
    assert [(one.name, one.kept) for one in reading.broken] == [("a", False)]


def test_what_has_not_changed_is_not_read_again(file: Fixture) -> None:
    assert file.reader.read() is file.reader.read()


def test_the_last_good_version_outlives_its_process(tmp_path: Path) -> None:
    path, state = tmp_path / "queries.yaml", tmp_path / "state"
    path.write_text(GOOD, encoding="utf-8")
    before = QueriesReader(path, clock=lambda: TIME, folder=state).read()
    path.write_text(GOOD.replace("grace: 2h", "grace: 2 hours"), encoding="utf-8")
    QueriesReader(path, clock=lambda: TIME, folder=state).read()
    path.write_text("", encoding="utf-8")
    after = QueriesReader(path, clock=lambda: TIME + 60.0, folder=state).read()
    assert after.queries == before.queries
    assert after.policy_of("c") == before.policy_of("c")
    assert [one.kept for one in after.all_problems] == [TIME + 60.0, TIME]
    assert len([*state.iterdir()]) == 1


def test_a_readable_file_is_trusted_over_what_was_kept(tmp_path: Path) -> None:
    path, state = tmp_path / "queries.yaml", tmp_path / "state"
    path.write_text(GOOD, encoding="utf-8")
    QueriesReader(path, clock=lambda: TIME, folder=state).read()
    path.write_text(GOOD.replace("/data/a", "/new/a"), encoding="utf-8")
    assert (
        QueriesReader(path, clock=lambda: TIME, folder=state).read().queries["a"].checkpoint
        == "/new/a"
    )


def test_a_reader_that_has_slept_takes_what_another_process_has_read(tmp_path: Path) -> None:
    path, state = tmp_path / "queries.yaml", tmp_path / "state"
    path.write_text(GOOD, encoding="utf-8")
    asleep = QueriesReader(path, clock=lambda: TIME, folder=state)
    asleep.read()
    path.write_text(GOOD.replace("/data/a", "/new/a"), encoding="utf-8")
    QueriesReader(path, clock=lambda: TIME, folder=state).read()
    path.write_text("", encoding="utf-8")
    assert asleep.read().queries["a"].checkpoint == "/new/a"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "path": 3, "files": {"a": 1}}'])
def test_a_spoiled_memory_is_no_memory(tmp_path: Path, text: str) -> None:
    path, state = tmp_path / "queries.yaml", tmp_path / "state"
    path.write_text(GOOD, encoding="utf-8")
    QueriesReader(path, clock=lambda: TIME, folder=state).read()
    (kept,) = state.iterdir()
    kept.write_text(text.replace("3", json.dumps(str(path))), encoding="utf-8")
    assert list(QueriesReader(path, clock=lambda: TIME, folder=state).read().queries) == [
        "a",
        "b",
        "c",
        "d",
    ]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_memory_has_the_rights_of_the_queries_file_also_while_that_is_missing(
    tmp_path: Path, mode: int
) -> None:
    path, state = tmp_path / "queries.yaml", tmp_path / "state"
    path.write_text(GOOD, encoding="utf-8")
    path.chmod(mode)
    QueriesReader(path, clock=lambda: TIME, folder=state).read()
    path.unlink()
    for clock in (lambda: TIME + 1, lambda: TIME + 2):
        reading = QueriesReader(path, clock=clock, folder=state).read()
        assert [one.kept for one in reading.all_problems] == [TIME + 1]
    (kept,) = state.iterdir()
    assert kept.stat().st_mode & 0o777 == mode


def test_processes_of_one_id_in_containers_spoil_no_memory_of_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = MemoryFile(tmp_path, "/queries.yaml")

    def save(number: int) -> None:
        file.save({"/queries.yaml": FileMemory("x" * 50_000 * (1 + number % 4))})
        assert file.load()

    with ThreadPoolExecutor(4) as processes:
        assert len(list(processes.map(save, range(400)))) == 400
    assert caplog.messages == []


def test_a_memory_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "queries.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert QueriesReader(path, clock=lambda: TIME, folder=path / "below").read().queries


def problems_of(reading: QueriesReading) -> list[tuple[str, int, str]]:
    return [(Path(one.file).name, one.line, one.entry) for one in reading.all_problems]


def test_a_folder_has_the_queries_of_all_its_files_each_with_its_own_defaults(
    tmp_path: Path,
) -> None:
    (tmp_path / "one.yaml").write_text("defaults: {grace: 1h}\nqueries: {a: {checkpoint: /a}}\n")
    (tmp_path / "two.yml").write_text(
        "defaults: {grace: 2h}\npushgateway: http://two:9091\nqueries: {b: {checkpoint: /b}}\n"
    )
    (tmp_path / "notes.txt").write_text("no queries")
    (tmp_path / ".hidden.yaml").write_text("queries: {c: {checkpoint: /c}}\n")
    reading = read_queries(tmp_path)
    assert not reading.all_problems
    assert {one: reading.policy_of(one).grace for one in reading.queries} == {"a": 3600, "b": 7200}
    gateways = [reading.settings_of(one).pushgateway for one in reading.queries]
    assert gateways == [None, "http://two:9091"]


def test_a_spoiled_file_of_a_folder_leaves_the_queries_of_the_others_alone(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("queries: {a: {checkpoint: /a}}\n")
    (tmp_path / "two.yaml").write_text("defaults: [\n")
    reading = read_queries(tmp_path)
    assert list(reading.queries) == ["a"]
    assert problems_of(reading) == [("two.yaml", 2, "")]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("a: {checkpoint: /other}", "queries.a: is a query of {one}:2, too; rename one of the two"),
        ("b: {checkpoint: /a/b}", "b ({two}:2), /a/b, lies inside that of a ({one}:2), /a; give"),
        ("b: {checkpoint: /a}", "a ({one}:2) and b ({two}:2) have one checkpoint (/a)"),
    ],
)
def test_what_two_files_both_have_is_a_mistake_of_the_later_one(
    tmp_path: Path, entry: str, said: str
) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("queries:\n  a: {checkpoint: /a}\n")
    two.write_text(f"queries:\n  {entry}\n  c: {{checkpoint: /c}}\n")
    reading = read_queries(tmp_path)
    assert {name: query.checkpoint for name, query in reading.queries.items()} == {
        "a": "/a",
        "c": "/c",
    }
    (problem,) = lines(reading)
    assert said.format(one=one, two=two) in problem
    assert problem.startswith(f"{two}:2: ")


def test_a_new_entry_of_an_earlier_file_takes_nothing_from_a_later_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("queries: {}\n")
    two.write_text("queries: {a: {checkpoint: /a}}\n")
    reader = QueriesReader(tmp_path, clock=lambda: TIME)
    reader.read()
    one.write_text("queries: {a: {checkpoint: /b}, b: {checkpoint: /a}}\n")
    reading = reader.read()
    assert {name: query.checkpoint for name, query in reading.queries.items()} == {"a": "/a"}
    assert problems_of(reading) == [("one.yaml", 1, "a"), ("one.yaml", 1, "b")]


def test_a_file_that_leaves_its_folder_is_forgotten_after_a_minute(tmp_path: Path) -> None:
    now = TIME
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("queries: {a: {checkpoint: /a}}\n")
    two.write_text("queries: {b: {checkpoint: /b}}\n")
    reader = QueriesReader(tmp_path, clock=lambda: now)
    reader.read()
    two.unlink()
    assert list(reader.read().queries) == ["a", "b"]
    now += SETTLED
    assert list(reader.read().queries) == ["a"]
    one.unlink()
    now += 2 * SETTLED
    reading = reader.read()
    assert list(reading.queries) == ["a"]
    assert [
        str(item).startswith(f"{tmp_path}: has no file *.yaml") for item in reading.all_problems
    ]


def test_a_problem_has_its_file_its_line_and_its_entry(tmp_path: Path) -> None:
    path = tmp_path / "queries.yaml"
    path.write_text("queries:\n  a.b: {checkpoint: x}\n")
    (problem,) = read_queries(path).all_problems
    what = problem.what
    assert problem == Problem(2, "queries.a.b.checkpoint", what, str(path), "a.b")
