"""A fleet in several DAG files, each with a queries file of its own, as docs/airflow.md has it."""

from pathlib import Path

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.factory import build_dags, settings_of
from statemaint.airflow.manual import manual_dags
from statemaint.airflow.names import VERIFY_DAG
from statemaint.queries.reading import read_queries

ENTRY = "queries:\n  {name}: {{checkpoint: /data/{name}}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATEMAINT_STATE", str(tmp_path / "state"))
    queries = tmp_path / "queries"
    queries.mkdir()
    for name in ("payments", "clicks"):
        text = ENTRY.format(name=name)
        (queries / f"{name}.yaml").write_text(text, encoding="utf-8")
    return queries


def test_dag_files_with_a_queries_file_each_make_the_dags_of_the_folder(folder: Path) -> None:
    parts = [set(build_dags(file)) for file in sorted(folder.iterdir())]
    assert parts == [{"statemaint__clicks"}, {"statemaint__payments"}]
    assert set(build_dags(folder)) == set.union(*parts)


def test_the_dags_for_manual_work_offer_the_queries_of_a_folder(folder: Path) -> None:
    choice = manual_dags(folder)[VERIFY_DAG].params.get_param("query")
    assert choice.schema["enum"] == ["clicks", "payments"]


def test_a_mistake_in_one_file_leaves_the_dags_of_the_others(folder: Path) -> None:
    (folder / "payments.yaml").write_text("queries: [", encoding="utf-8")
    assert set(build_dags(folder / "clicks.yaml")) == {"statemaint__clicks"}
    assert set(build_dags(folder / "payments.yaml")) == {"statemaint_queries_file"}


@pytest.mark.parametrize("module", ["def :\n", "1 / 0\n", "raise SystemExit(1)\n"])
def test_a_notifier_whose_module_fails_leaves_the_other_dags(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    (folder.parent / "failing_notifier.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(folder.parent)
    entries = (
        "  a: {checkpoint: /a, notify: [{call: failing_notifier.tell}]}\n  b: {checkpoint: /b}\n"
    )
    (folder / "clicks.yaml").write_text(f"queries:\n{entries}", encoding="utf-8")
    dags = build_dags(folder / "clicks.yaml")
    assert list(dags["statemaint__a"].task_dict) == ["configuration"]
    assert "failing_notifier.tell cannot be imported" in str(dags["statemaint__a"].doc_md)
    assert "plan" in dags["statemaint__b"].task_dict


def test_arguments_that_are_no_json_leave_the_other_dags(folder: Path) -> None:
    notify = "[{call: unittest.mock.MagicMock, arguments: {key: !!binary '/w=='}}]"
    text = f"queries:\n  a: {{checkpoint: /a, notify: {notify}}}\n  b: {{checkpoint: b}}\n"
    (folder / "clicks.yaml").write_text(text, encoding="utf-8")
    dags = build_dags(folder / "clicks.yaml")
    assert "plan" in dags["statemaint__a"].task_dict
    assert list(dags["statemaint__b"].task_dict) == ["configuration"]


def test_a_part_of_the_queries_of_an_origin_removes_no_metrics_of_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(path: Path) -> frozenset[str] | None:
        return settings_of(read_queries(path), "clicks").targets.known

    part = folder / "clicks.yaml"
    monkeypatch.delenv("STATEMAINT_ORIGIN", raising=False)
    monkeypatch.setenv("STATEMAINT_QUERIES", str(folder))
    assert known(part) == frozenset({"clicks"})  # of an origin of its own
    monkeypatch.setenv("STATEMAINT_ORIGIN", "prod")
    assert known(part) is None
    assert known(folder) == frozenset({"clicks", "payments"})
    monkeypatch.delenv("STATEMAINT_QUERIES")
    assert known(part) is None
    usual = part.rename(folder / "statemaint_queries.yaml")
    assert known(usual) == frozenset({"clicks"})
