"""What Airflow makes of `dags/statemaint_dags.py`, each time in a process of its own."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from statemaint.airflow import names
from statemaint.queries.models import DEFAULT_POOL
from tests.support.paths import ROOT
from tests.systems.airflow.forking import Pythons
from tests.systems.airflow.support import DAGS, neglected, tree_hash

pytestmark = pytest.mark.airflow

DAG_FILE = DAGS / "statemaint_dags.py"
EXAMPLE = DAGS / "statemaint_queries.example.yaml"


def describe(
    pythons: Pythons,
    folder: Path,
    *,
    queries: Path | None,
    watched: Path = Path("/nowhere"),
    file: Path = DAG_FILE,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Returns what `tests.systems.airflow.describe` prints."""
    more = {**environ, **({"STATEMAINT_QUERIES": str(queries)} if queries else {})}
    done = run(
        pythons, folder, ["-m", "tests.systems.airflow.describe", str(file), str(watched)], more
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(
    pythons: Pythons,
    folder: Path,
    arguments: list[str],
    environ: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder."""
    inherited = {name: value for name, value in os.environ.items() if "STATEMAINT" not in name}
    home = {"AIRFLOW_HOME": str(folder / "home")}
    done = pythons.run(arguments, cwd=folder, environ={**inherited, **home, **environ})
    assert done.returncode == 0, done.stderr
    return done


def described(
    pythons: Pythons,
    folder: Path,
    text: str,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Returns what Airflow makes of a queries file."""
    queries = folder / "queries.yaml"
    queries.write_text(text, encoding="utf-8")
    return describe(pythons, folder, queries=queries, environ=environ)


@pytest.fixture(scope="module")
def example(pythons: Pythons, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return describe(pythons, tmp_path_factory.mktemp("example"), queries=EXAMPLE)


def test_the_example_imports_without_an_error_or_a_warning(example: dict[str, Any]) -> None:
    assert (example["errors"], example["warnings"]) == ({}, {})
    assert sorted(example["dags"]) == ["statemaint__click_join", "statemaint__hourly_revenue"]


def test_the_example_of_a_users_dag_imports_and_maintains_behind_the_query(
    pythons: Pythons, tmp_path: Path
) -> None:
    found = describe(pythons, tmp_path, queries=None, file=ROOT / "docs/examples/own_dag.py")
    assert (found["errors"], found["warnings"]) == ({}, {})
    (dag,) = found["dags"].values()
    following = {name: task["downstream"] for name, task in dag["tasks"].items()}
    assert following["gate"] == ["hourly_revenue"]
    assert following["hourly_revenue"] == ["statemaint.plan"]


def test_the_example_of_a_long_running_query_starts_behind_the_gate_and_is_maintained_beside_it(
    pythons: Pythons, tmp_path: Path
) -> None:
    file = ROOT / "docs/examples/device_readings_dag.py"
    found = describe(pythons, tmp_path, queries=None, file=file)
    assert (found["errors"], found["warnings"]) == ({}, {})
    assert sorted(found["dags"]) == ["device_readings", "statemaint__device_readings"]
    query, maintenance = (found["dags"][name] for name in sorted(found["dags"]))
    assert query["tasks"]["gate"]["downstream"] == ["device_readings"]
    assert query["max_active_runs"] == 1
    assert maintenance["schedule"] == "*/20 * * * *"
    assert sorted(maintenance["tasks"]) == ["maintain", "plan", "report"]


def test_a_dag_is_scheduled_and_tagged_as_the_file_says(example: dict[str, Any]) -> None:
    join, hourly = _both(example)
    assert (hourly["schedule"], hourly["tags"]) == ("0 * * * *", ["statemaint"])
    assert (join["schedule"], join["tags"]) == ("*/20 * * * *", ["clickstream", "statemaint"])


def test_a_dag_has_one_run_at_a_time_and_makes_nothing_up(example: dict[str, Any]) -> None:
    for dag in example["dags"].values():
        assert (dag["max_active_runs"], dag["catchup"]) == (1, False)


def test_a_dag_says_what_it_does_and_by_which_policy(example: dict[str, Any]) -> None:
    _, hourly = _both(example)
    assert "| `min_batches_to_retain` | 50 |" in hourly["doc"]
    assert "`/data/checkpoints/hourly_revenue`" in hourly["doc"]


def test_a_plan_is_mapped_and_then_reported(example: dict[str, Any]) -> None:
    _, hourly = _both(example)
    downstream = {name: task["downstream"] for name, task in hourly["tasks"].items()}
    assert downstream == {"plan": ["maintain"], "maintain": ["report"], "report": []}
    assert [name for name, task in hourly["tasks"].items() if task["mapped"]] == ["maintain"]


def test_the_report_always_runs_and_never_decides_how_a_run_ended(example: dict[str, Any]) -> None:
    report = _both(example)[1]["tasks"]["report"]
    assert (report["teardown"], report["fails_run"]) == (True, False)
    events = ["statemaint://hourly_revenue", "statemaint://hourly_revenue/findings"]
    assert report["outlets"] == events


def test_tasks_are_retried_as_the_file_says(example: dict[str, Any]) -> None:
    join, hourly = _both(example)
    assert {task["retries"] for task in join["tasks"].values()} == {2}
    assert {task["retries"] for task in hourly["tasks"].values()} == {3}


def test_the_form_has_switches_numbers_lists_and_an_engine_that_may_all_stay_as_they_are(
    example: dict[str, Any],
) -> None:
    params = _both(example)[1]["params"]
    schemas = {name: param["schema"] for name, param in params.items()}
    kinds = {name: (params[name]["value"], schemas[name]["type"]) for name in params}
    assert kinds == {
        "dry_run": (False, "boolean"),
        "force_snapshot": (False, "boolean"),
        "min_deltas_for_snapshot": (None, ["null", "integer"]),
        "min_batches_to_retain": (None, ["null", "integer"]),
        "operators": (None, ["null", "string", "array"]),
        "partitions": (None, ["null", "string", "array"]),
        "engine": (None, ["null", "string"]),
    }
    assert schemas["partitions"]["items"] == {"type": "integer", "minimum": 0}
    for name in ("min_deltas_for_snapshot", "min_batches_to_retain"):
        assert schemas[name]["exclusiveMinimum"] == 0
        assert "minimum" not in schemas[name]  # Airflow's form would turn a 0 into a 1
    assert all(schema["title"] and schema["description_md"] for schema in schemas.values())
    assert (
        "Empty: 50, as in the queries file." in schemas["min_batches_to_retain"]["description_md"]
    )


def test_parsing_touches_no_storage(pythons: Pythons, tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "checkpoint")
    before = tree_hash(checkpoint)
    queries = tmp_path / "queries.yaml"
    queries.write_text(f"queries: {{a: {{checkpoint: {checkpoint}}}}}", encoding="utf-8")
    found = describe(pythons, tmp_path, queries=queries, watched=checkpoint)
    assert list(found["dags"]) == ["statemaint__a"]
    assert found["touched"] == []
    assert tree_hash(checkpoint) == before


def test_a_wrong_entry_is_one_dag_that_says_so_and_the_others_live(
    pythons: Pythons, tmp_path: Path
) -> None:
    found = described(
        pythons,
        tmp_path,
        """
queries:
  a: {checkpoint: /a}
  b: {checkpoint: /b, schedule: "99 * * * *"}
  c: {checkpoint: /c, cron: 1, schedule: "@hourly"}
  d: {checkpoint: /d, executor: NoSuchExecutor}
  e: {checkpoint: /e, notify: [{call: no_such_module.tell}]}
  "f g": {checkpoint: /f}
  g: {checkpoint: /g, enabled: false}
  "h_{x}": {for_each: {x: [1, 2]}, checkpoint: "/{x}"}
""",
    )
    assert found["errors"] == {}
    tasks = {name: sorted(dag["tasks"]) for name, dag in found["dags"].items()}
    good, broken = ["maintain", "plan", "report"], ["configuration"]
    assert tasks == {
        "statemaint__a": good,
        "statemaint__h_1": good,
        "statemaint__h_2": good,
        **dict.fromkeys([f"statemaint__{name}" for name in ("b", "c", "d", "e", "f_g")], broken),
    }
    docs = {name: dag["doc"] for name, dag in found["dags"].items()}
    assert ":4: queries.b.schedule: '99 * * * *' is not a valid cron" in docs["statemaint__b"]
    assert ":5: queries.c.cron: no such key; the keys are" in docs["statemaint__c"]
    assert ":6: queries.d: Unknown executor being loaded: NoSuchExecutor" in docs["statemaint__d"]
    assert ":7: queries.e: no_such_module.tell cannot be imported" in docs["statemaint__e"]
    for name in "bcde":
        dag = found["dags"][f"statemaint__{name}"]
        assert (dag["schedule"], dag["paused"]) == ("0 * * * *", False)
    assert found["dags"]["statemaint__a"]["paused"] is None


def test_queries_of_one_name_share_a_dag_without_those_that_are_wrong(
    pythons: Pythons, tmp_path: Path
) -> None:
    found = described(
        pythons,
        tmp_path,
        """
queries:
  a: {checkpoint: /a, engine: spark, together: t, schedule: "@daily", tags: [x], retries: 1}
  b: {checkpoint: /b, engine: spark, together: t, schedule: "@hourly", retries: 1}
  c: {checkpoint: /c, engine: spark, together: t, schedule: "@daily", tags: [y], retries: 1}
  d: {checkpoint: /d, engine: spark}
  e: {checkpoint: /e, engine: spark, together: u, notify: [{call: no_such_module.tell}]}
""",
    )
    assert found["errors"] == {}
    shared = found["dags"]["statemaint_together_t"]
    assert sorted(found["dags"]) == [
        "statemaint__b",
        "statemaint__d",
        "statemaint_together_t",
        "statemaint_together_u",
    ]
    downstream = {name: task["downstream"] for name, task in shared["tasks"].items()}
    assert downstream == {"plan": ["spark"], "spark": ["report"], "report": []}
    report = shared["tasks"]["report"]
    assert (report["teardown"], report["fails_run"], report["retries"]) == (True, False, 1)
    ends = ("", "/findings")
    assert report["outlets"] == [f"statemaint://{one}{end}" for one in "ac" for end in ends]
    assert (shared["schedule"], shared["tags"]) == ("0 0 * * *", ["statemaint", "x", "y"])
    assert shared["params"]["queries"]["schema"]["examples"] == ["a", "c"]
    assert sorted(shared["params"]) == [
        "dry_run",
        "force_snapshot",
        "min_batches_to_retain",
        "min_deltas_for_snapshot",
        "queries",
    ]
    assert (
        ":4: queries.b.together: b differs from a in sch" in found["dags"]["statemaint__b"]["doc"]
    )
    other = found["dags"]["statemaint_together_u"]
    assert "queries.e: no_such_module.tell cannot be imported" in other["doc"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queries: [", "queries.yaml:1: expected the node content, but found '<stream end>'"),
        ("- a", "queries.yaml: must be a mapping with the key `queries`"),
        ("queries: {}\npushgateway: x", "queries.yaml:2: pushgateway: not a web address"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_dag_that_says_so(
    pythons: Pythons, tmp_path: Path, text: str, said: str
) -> None:
    found = described(pythons, tmp_path, text)
    assert found["errors"] == {}
    assert list(found["dags"]) == ["statemaint_queries_file"]
    dag = found["dags"]["statemaint_queries_file"]
    assert said in dag["doc"]
    assert list(dag["tasks"]) == ["configuration"]
    assert (dag["paused"], dag["schedule"]) == (False, "0 * * * *")


def test_a_mistake_in_the_defaults_stops_each_query_that_takes_them(
    pythons: Pythons, tmp_path: Path
) -> None:
    found = described(pythons, tmp_path, "defaults: {grce: 1h}\nqueries: {a: {checkpoint: /a}}")
    assert sorted(found["dags"]) == ["statemaint__a", "statemaint_queries_file"]
    assert list(found["dags"]["statemaint__a"]["tasks"]) == ["configuration"]


GOOD = """
queries:
  a: {checkpoint: /a, notify: [{call: json.dumps}]}
  b: {checkpoint: /b, notify: [{call: json.dumps}, {call: json.loads}]}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "queries.yaml: was cut: 0 of 134 characters are left"),
        (GOOD[:80], "queries.yaml: was cut: 80 of 134 characters are left"),
        ("defaults: [" + GOOD, "queries.yaml:3: expected ',' or ']', but got ':'"),
        ("defaults: {grce: 1h}" + GOOD, "queries.yaml:1: defaults.grce: no such key"),
        (GOOD.replace("/a", "a"), "queries.yaml:3: queries.a.checkpoint: 'a' depends on where"),
    ],
)
def test_a_mistake_keeps_every_dag_and_adds_one_that_shows_it_and_notifies(
    pythons: Pythons, tmp_path: Path, text: str, said: str
) -> None:
    before = described(pythons, tmp_path, GOOD)["dags"]
    found = described(pythons, tmp_path, text)
    assert found["errors"] == {}
    added = found["dags"].pop("statemaint_queries_file")
    assert found["dags"] == before
    assert said in added["doc"]
    assert "(its last good version is used, since 20" in added["doc"]
    assert list(added["tasks"]) == ["configuration"]
    assert (added["paused"], added["notified"]) == (False, 2)


def test_the_last_good_version_is_kept_in_the_folder_of_the_environment(
    pythons: Pythons, tmp_path: Path
) -> None:
    environ = {"STATEMAINT_STATE": str(tmp_path / "state")}
    before = described(pythons, tmp_path, GOOD, environ)["dags"]
    assert len([*(tmp_path / "state").iterdir()]) == 1
    assert before.items() < described(pythons, tmp_path, "", environ)["dags"].items()


def test_the_manual_dags_keep_their_queries_while_the_file_is_empty(
    pythons: Pythons, tmp_path: Path
) -> None:
    queries, file = tmp_path / "queries.yaml", DAGS / "statemaint_manual_dags.py"
    queries.write_text(GOOD, encoding="utf-8")
    before = describe(pythons, tmp_path, queries=queries, file=file)["dags"]
    queries.write_text("", encoding="utf-8")
    assert describe(pythons, tmp_path, queries=queries, file=file)["dags"] == before
    assert len(before) == 5


def test_the_dags_of_a_folder_have_the_settings_of_their_own_files(
    pythons: Pythons, tmp_path: Path
) -> None:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "one.yaml").write_text("queries: {a: {checkpoint: /a}, b: {checkpoint: /b}}\n")
    (folder / "two.yaml").write_text("queries: {a: {checkpoint: /c}, d: {checkpoint: /d}}\n")
    (folder / "three.yaml").write_text("queries: [\n")
    found = describe(pythons, tmp_path, queries=folder)
    wrong = found["dags"].pop("statemaint_queries_file")
    assert sorted(found["dags"]) == ["statemaint__a", "statemaint__b", "statemaint__d"]
    assert "three.yaml:2: expected the node content" in wrong["doc"]
    assert f"two.yaml:1: queries.a: is a query of {folder}/one.yaml:1, too" in wrong["doc"]


def test_an_address_with_a_secret_in_the_environment_leaves_the_queries_alone(
    pythons: Pythons, tmp_path: Path
) -> None:
    environ = {"STATEMAINT_PUSHGATEWAY": "http://u:hush@gateway:9091"}
    found = described(pythons, tmp_path, "queries: {a: {checkpoint: /a}}", environ)
    assert sorted(found["dags"]) == ["statemaint__a", "statemaint_queries_file"]
    assert sorted(found["dags"]["statemaint__a"]["tasks"]) == ["maintain", "plan", "report"]
    assert "hush" not in json.dumps(found)


def test_tasks_have_what_the_entry_says(pythons: Pythons, tmp_path: Path) -> None:
    found = described(
        pythons,
        tmp_path,
        """
queries:
  usual: {checkpoint: /a}
  special:
    checkpoint: /b
    schedule: "@daily"
    after: orders
    owner: streaming
    pool: big
    priority: 7
    queue: slow
    executor: LocalExecutor
    timeout: 2h
    retries: 5
    retry_delay: 30s
    deadline: 3h
    notify: [{call: json.dumps}]
""",
    )
    usual, special = found["dags"]["statemaint__usual"], found["dags"]["statemaint__special"]
    for task in special["tasks"].values():
        assert task["arguments"] == {
            "owner": "streaming",
            "pool": "big",
            "priority": 7,
            "queue": "slow",
            "executor": "LocalExecutor",
            "timeout": 7200.0,
            "retry_delay": 30.0,
            "backoff": 2.0,
            "longest_delay": 3600.0,
        }
    for task in usual["tasks"].values():
        kept = {name: task["arguments"][name] for name in ("pool", "priority", "timeout")}
        assert kept == {"pool": "statemaint", "priority": 1, "timeout": 6 * 3600.0}
        assert (task["retries"], task["arguments"]["retry_delay"]) == (3, 60.0)
    assert (usual["deadline"], usual["notified"]) == (None, 0)
    assert (special["deadline"], special["notified"]) == (3 * 3600.0, 1)
    assert special["timetable"] == "AssetOrTimeSchedule"


def test_a_process_that_runs_a_task_builds_its_dag_only(pythons: Pythons, tmp_path: Path) -> None:
    queries = tmp_path / "queries.yaml"
    queries.write_text("queries: {a: {checkpoint: /a}, b: {checkpoint: /b}}", encoding="utf-8")
    program = (
        "from airflow.sdk.definitions._internal.dag_parsing_context import "
        "_airflow_parsing_context_manager as context\n"
        "from statemaint.airflow.factory import build_dags\n"
        f"with context(dag_id='statemaint__b'): print(list(build_dags({str(queries)!r})))\n"
    )
    done = run(pythons, tmp_path, ["-c", program])
    assert done.stdout.splitlines()[-1] == "['statemaint__b']"


def test_an_airflow_variable_names_the_file_where_the_environment_does_not(
    pythons: Pythons, tmp_path: Path
) -> None:
    named = tmp_path / "elsewhere.yaml"
    named.write_text("queries: {a: {checkpoint: /a}}", encoding="utf-8")
    environ = {"AIRFLOW_VAR_STATEMAINT_QUERIES": str(named)}
    assert list(describe(pythons, tmp_path, queries=None, environ=environ)["dags"]) == [
        "statemaint__a"
    ]
    other = tmp_path / "queries.yaml"
    other.write_text("queries: {b: {checkpoint: /b}}", encoding="utf-8")
    assert list(describe(pythons, tmp_path, queries=other, environ=environ)["dags"]) == [
        "statemaint__b"
    ]


def test_the_pool_of_the_plugin_is_the_default_of_the_file() -> None:
    assert names.POOL == DEFAULT_POOL


def test_the_file_beside_the_dag_file_is_taken_where_the_environment_names_none(
    pythons: Pythons, tmp_path: Path
) -> None:
    file = Path(shutil.copy(DAG_FILE, tmp_path))
    shutil.copy(EXAMPLE, tmp_path / "statemaint_queries.yaml")
    assert len(describe(pythons, tmp_path, queries=None, file=file)["dags"]) == 2


def test_a_missing_file_is_one_dag_that_says_so(pythons: Pythons, tmp_path: Path) -> None:
    file = Path(shutil.copy(DAG_FILE, tmp_path))
    found = describe(pythons, tmp_path, queries=None, file=file)
    assert found["errors"] == {}
    (dag,) = found["dags"].values()
    assert f"{tmp_path / 'statemaint_queries.yaml'}: cannot be read (No such file" in dag["doc"]


def _both(example: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    dags = example["dags"]
    return dags["statemaint__click_join"], dags["statemaint__hourly_revenue"]


def test_manual_work_has_a_dag_for_each_verb_with_the_queries_to_choose_from(
    pythons: Pythons, tmp_path: Path
) -> None:
    found = describe(pythons, tmp_path, queries=EXAMPLE, file=DAGS / "statemaint_manual_dags.py")
    assert (found["errors"], found["warnings"]) == ({}, {})
    dags = found["dags"]
    verbs = ("repair", "reshape", "rollback", "undo", "verify")
    assert sorted(dags) == [f"statemaint_{verb}" for verb in verbs]
    for dag in dags.values():
        choice = dag["params"]["query"]["schema"]["enum"]
        assert (choice, dag["schedule"]) == (["click_join", "hourly_revenue"], None)
    for verb in verbs[:-1]:
        tasks = dags[f"statemaint_{verb}"]["tasks"].items()
        downstream = {name: one["downstream"] for name, one in tasks}
        assert downstream == {"plan": ["apply", "approve"], "approve": ["apply"], "apply": []}
