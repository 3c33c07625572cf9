"""The OpenLineage of our tasks, in OpenLineage's own classes where its package is installed.

It is not in `requirements.lock`; without it, small classes with the same fields stand in.
"""

import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.providers.common.compat.openlineage import facet

from statemaint.airflow.endings import StatemaintTask, dataset_name
from statemaint.airflow.operators import CheckpointHealthyOperator
from statemaint.airflow.sensors import CheckpointSensor
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import maintain_query
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from tests.systems.airflow.support import neglected

MAINTAINED = {
    "checkpoint": "s3a://lake/checkpoints/a",
    "maintained": True,
    "snapshots": 4,
    "bytes_written": 1000,
    "files": 80,
    "bytes": 5000,
}
IDLE = {**dict.fromkeys(MAINTAINED, 0), "checkpoint": "hdfs://namenode:8020/b", "maintained": False}


@dataclass
class _Dataset:
    namespace: str
    name: str
    outputFacets: dict[str, Any] = field(default_factory=dict)  # noqa: N815 -- OpenLineage's


@dataclass
class _Statistics:
    size: int | None = None
    fileCount: int | None = None  # noqa: N815 -- OpenLineage's


class _RunFacet:
    def with_additional_properties(self, **properties: int) -> "_RunFacet":
        vars(self).update(properties)
        return self


@dataclass
class _OperatorLineage:
    inputs: list[Any]
    outputs: list[Any]
    run_facets: dict[str, Any]


@pytest.fixture(autouse=True)
def openlineage(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("openlineage"):
        return
    for name, stand_in in {
        "InputDataset": _Dataset,
        "OutputDataset": _Dataset,
        "OutputStatisticsOutputDatasetFacet": _Statistics,
        "RunFacet": _RunFacet,
    }.items():
        monkeypatch.setattr(facet, name, stand_in)
    for module in (
        _module("airflow.providers.openlineage"),
        _module("airflow.providers.openlineage.extractors", OperatorLineage=_OperatorLineage),
    ):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    return module


def lineage(result: object) -> Any:
    operator: Any = StatemaintTask(
        task_id="report", python_callable=lambda: result, op_args=[], op_kwargs={}
    )
    operator.traced(result)
    return operator.get_openlineage_facets_on_complete(None)


def places(datasets: list[Any]) -> list[tuple[str, str]]:
    return [(each.namespace, each.name) for each in datasets]


def counted(found: Any) -> dict[str, int]:
    names = ("snapshotsWritten", "bytesWritten", "filesDeleted", "bytesDeleted")
    counts = found.run_facets["statemaint"]
    return {name: getattr(counts, name) for name in names if hasattr(counts, name)}


def test_a_run_has_read_and_written_its_checkpoint() -> None:
    found = lineage(MAINTAINED)
    assert places(found.inputs) == places(found.outputs) == [("s3://lake", "checkpoints/a")]
    statistics = found.outputs[0].outputFacets["outputStatistics"]
    assert (statistics.size, statistics.fileCount) == (1000, 4)
    assert counted(found) == {
        "snapshotsWritten": 4,
        "bytesWritten": 1000,
        "filesDeleted": 80,
        "bytesDeleted": 5000,
    }


def test_a_run_with_nothing_to_do_has_written_nothing() -> None:
    found = lineage(IDLE)
    assert places(found.inputs) == [("hdfs://namenode:8020", "/b")]
    assert found.outputs == []


def test_a_run_of_several_queries_has_the_sums_of_their_counts() -> None:
    found = lineage({"a": MAINTAINED, "b": IDLE, "c": {"query": "c", "success": False}})
    assert len(found.inputs) == 2
    assert places(found.outputs) == [("s3://lake", "checkpoints/a")]
    assert counted(found)["filesDeleted"] == 80


def test_a_savepoint_is_written_and_its_query_is_read() -> None:
    found = lineage({"checkpoint": "/a", "savepoint": "gs://backup/a/7", "batch": 7, "bytes": 9})
    assert places(found.inputs) == [("file", "/a")]
    assert places(found.outputs) == [("gs://backup", "a/7")]
    assert found.outputs[0].outputFacets["outputStatistics"].size == 9


def test_a_rollback_has_deleted_what_it_moved_to_the_trash() -> None:
    found = lineage({"checkpoint": "/a", "removed": [{}, {}], "written": []})
    assert places(found.outputs) == [("file", "/a")]
    assert counted(found) == {"snapshotsWritten": 0, "filesDeleted": 2}


def test_an_undo_has_written_the_files_that_it_brought_back() -> None:
    found = lineage({"checkpoint": "/a", "run": "r", "undo": "u", "files": 3, "bytes": 40})
    assert places(found.outputs) == [("file", "/a")]
    counts = found.run_facets["statemaint"]
    assert (counts.filesRestored, counts.bytesRestored) == (3, 40)
    assert lineage({"checkpoint": "/a", "undo": "u", "files": 0, "bytes": 0}).outputs == []


@pytest.mark.parametrize("result", [None, [{"label": "op 0 / part 0"}], {"a": 1}])
def test_a_task_without_a_report_has_no_lineage_of_ours(result: object) -> None:
    found = lineage(result)
    assert (found.inputs, found.outputs, found.run_facets) == ([], [], {})


def test_a_report_of_a_run_has_the_counts_that_lineage_reads(tmp_path: Path) -> None:
    settings = QuerySettings(
        "a", str(neglected(tmp_path / "a")), Policy(min_batches_to_retain=5, grace=0.0)
    )
    done = maintain_query(settings, Options(), Holder("a"), run="r")
    found = lineage(done.report)
    assert places(found.outputs) == [("file", settings.checkpoint)]
    assert counted(found)["snapshotsWritten"] == 8
    assert counted(found)["bytesWritten"] > 0
    assert counted(found)["filesDeleted"] == 64


def test_a_gate_and_a_sensor_have_read_their_checkpoint(tmp_path: Path) -> None:
    checkpoint = str(neglected(tmp_path / "a"))
    gate = CheckpointHealthyOperator(task_id="gate", checkpoint=checkpoint)
    sensor = CheckpointSensor(task_id="wait", checkpoint=checkpoint, max_chain=100)
    for operator in (gate, sensor):
        operator.outlets = []
        operator.execute({"ti": SimpleNamespace(map_index=-1), "task": operator})
        found = operator.get_openlineage_facets_on_complete(None)
        assert places(found.inputs) == [("file", checkpoint)]
        assert found.outputs == []


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("s3a://lake/a b/c", ("s3://lake", "a b/c")),
        ("s3://lake", ("s3://lake", "/")),
        ("file:///data/a", ("file", "/data/a")),
        ("file:/data/a", ("file", "/data/a")),
        ("/data/a#1", ("file", "/data/a#1")),
        ("abfss://fs@lake.dfs.core.windows.net/a", ("abfss://fs@lake.dfs.core.windows.net", "a")),
    ],
)
def test_a_checkpoint_has_openlineages_name(address: str, named: tuple[str, str]) -> None:
    assert dataset_name(address) == named
