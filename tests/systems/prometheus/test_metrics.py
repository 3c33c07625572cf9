"""From a real run to a real Pushgateway."""

import math
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from prometheus_client.parser import text_string_to_metric_families

from statemaint import __version__
from statemaint.demo.prometheus import Server
from statemaint.maintain import maintain
from statemaint.metrics import HELP, push, push_query, write_query_textfile, write_textfile
from statemaint.model.policy import Policy
from statemaint.plan import Plan
from statemaint.planning import plan_checkpoint
from statemaint.report import Report
from statemaint.report.query_state import QueryState, lag
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint

pytestmark = pytest.mark.prometheus

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
NOW = 1_800_000_000.0
Series = dict[tuple[str, str], float]


@pytest.fixture
def storage() -> MemoryStorage:
    found = MemoryStorage(clock=lambda: NOW)
    write_checkpoint(found)
    return found


def served(gateway: Server) -> str:
    with build_opener(ProxyHandler({})).open(f"{gateway.url}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def series(text: str, partition: str) -> Series:
    """Returns the values of a partition's metrics, by name and by reason, code, verb or store."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            if sample.name.startswith("statemaint_") and labels.get("partition") == partition:
                names = ("reason", "code", "verb", "store")
                part = next((labels[name] for name in names if labels.get(name)), "")
                found[sample.name.removeprefix("statemaint_"), part] = sample.value
    return found


def pushed(gateway: Server, report: Report, partition: str = "0") -> Series:
    push(report, query="q", gateway=gateway.url)
    return series(served(gateway), partition)


def test_a_run_pushes_a_group_for_each_partition(storage: MemoryStorage, gateway: Server) -> None:
    report = maintain(storage, TIGHT)
    found = pushed(gateway, report, "1")
    store = report.stores[1].after
    assert {name: found[name, "default"] for name in (
        "chain_length", "store_files", "store_bytes", "state_rows", "reclaimable_bytes", "halted",
        "newest_snapshot_timestamp_seconds",
    )} == {
        "chain_length": 0,
        "store_files": 11,
        "store_bytes": sum(file.entry.size for file in store.files),
        "state_rows": 18,
        "reclaimable_bytes": 0,
        "halted": 0,
        "newest_snapshot_timestamp_seconds": NOW,
    }  # fmt: skip
    assert found["last_run_files_deleted", "below_base"] == 16
    assert found["last_run_snapshots_written", ""] == 2
    assert found["last_success_timestamp_seconds", ""] == NOW
    assert found["findings", "BROKEN_CHAIN"] == 0


def test_a_halted_store_is_told_and_keeps_the_last_success(
    storage: MemoryStorage, gateway: Server
) -> None:
    pushed(gateway, maintain(storage, TIGHT))
    content = storage.read("state/0/0/20.delta")
    storage.delete("state/0/0/20.delta")
    storage._clock = lambda: NOW + 60
    broken = pushed(gateway, maintain(storage, TIGHT))
    assert broken["halted", "default"] == 1
    assert broken["findings", "BROKEN_CHAIN"] == 1
    assert math.isnan(broken["chain_length", "default"]) is False  # 25.snapshot still loads
    assert broken["last_success_timestamp_seconds", ""] == NOW
    assert broken["last_run_timestamp_seconds", ""] == NOW + 60
    storage.write("state/0/0/20.delta", [content])
    repaired = pushed(gateway, maintain(storage, TIGHT))
    assert (repaired["halted", "default"], repaired["findings", "BROKEN_CHAIN"]) == (0, 0)


def test_a_chain_that_does_not_load_has_no_length(storage: MemoryStorage, gateway: Server) -> None:
    storage.delete("state/0/0/20.delta")
    found = pushed(gateway, maintain(storage, TIGHT))
    assert math.isnan(found["chain_length", "default"])
    assert math.isnan(found["state_rows", "default"])
    assert found["newest_snapshot_timestamp_seconds", "default"] == 0


def test_a_finding_that_is_gone_is_taken_back(storage: MemoryStorage, gateway: Server) -> None:
    storage.write("state/0/0/foo.bar", [b""])
    assert pushed(gateway, maintain(storage, TIGHT))["findings", "UNKNOWN_FILE"] == 1
    storage.delete("state/0/0/foo.bar")
    found = pushed(gateway, maintain(storage, TIGHT))
    assert ("findings", "UNKNOWN_FILE") not in found


def state_of(plan: Plan) -> QueryState:
    return QueryState(plan.committed, lag((one.store for one in plan.stores), plan.target))


def test_the_query_has_a_group_of_its_own(storage: MemoryStorage, gateway: Server) -> None:
    _, before = plan_checkpoint(storage, TIGHT)
    push_query(state_of(before), query="q", gateway=gateway.url)
    assert 'statemaint_snapshot_lag_versions{instance="",job="statemaint",query="q"} 25' in served(
        gateway
    )
    maintain(storage, TIGHT)
    _, after = plan_checkpoint(storage, TIGHT)
    push_query(state_of(after), query="q", gateway=gateway.url)
    text = served(gateway)
    assert 'statemaint_snapshot_lag_versions{instance="",job="statemaint",query="q"} 0' in text
    assert 'statemaint_last_committed_batch{instance="",job="statemaint",query="q"} 24' in text
    assert f'version="{__version__}"' in text


def test_a_query_without_a_commit_has_no_numbers(gateway: Server) -> None:
    storage = MemoryStorage()
    write_checkpoint(storage, last=1, batches=())
    storage.write("offsets/0", [b'v1\n{"conf":{}}\n-'])
    _, plan = plan_checkpoint(storage, TIGHT)
    push_query(state_of(plan), query="q", gateway=gateway.url)
    assert 'statemaint_last_committed_batch{instance="",job="statemaint",query="q"} NaN' in served(
        gateway
    )


def test_every_metric_of_the_contract_is_pushed(storage: MemoryStorage, gateway: Server) -> None:
    report = maintain(storage, TIGHT)
    push(report, query="q", gateway=gateway.url)
    push_query(state_of(report.plan), query="q", gateway=gateway.url)
    families = {family.name for family in text_string_to_metric_families(served(gateway))}
    assert {f"statemaint_{name}" for name in HELP} <= families


def test_a_textfile_holds_the_same_series(
    storage: MemoryStorage, gateway: Server, tmp_path: Path
) -> None:
    report = maintain(storage, TIGHT)
    write_textfile(report, query="q", folder=tmp_path / "new")
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "statemaint_q_0_0.prom",
        "statemaint_q_0_1.prom",
    ]
    text = (tmp_path / "new/statemaint_q_0_1.prom").read_text()
    assert series(text, "1") == pushed(gateway, report, "1")


def test_a_textfile_keeps_the_last_success_of_a_failing_partition(
    storage: MemoryStorage, tmp_path: Path
) -> None:
    file = tmp_path / "statemaint_q_0_0.prom"
    file.write_text("not a metric {")
    write_textfile(maintain(storage, TIGHT), query="q", folder=tmp_path)
    storage.delete("state/0/0/20.delta")
    storage._clock = lambda: NOW + 60
    write_textfile(maintain(storage, TIGHT), query="q", folder=tmp_path)
    found = series(file.read_text(), "0")
    assert found["last_success_timestamp_seconds", ""] == NOW
    assert found["last_run_timestamp_seconds", ""] == NOW + 60
    other = series((tmp_path / "statemaint_q_0_1.prom").read_text(), "1")
    assert other["last_success_timestamp_seconds", ""] == NOW + 60


def test_a_textfile_tells_of_the_whole_query(storage: MemoryStorage, tmp_path: Path) -> None:
    _, plan = plan_checkpoint(storage, TIGHT)
    write_query_textfile(state_of(plan), query="q", folder=tmp_path / "new")
    text = (tmp_path / "new/statemaint_q.prom").read_text()
    assert 'statemaint_snapshot_lag_versions{query="q"} 25.0' in text


def test_an_unreachable_pushgateway_is_an_os_error(storage: MemoryStorage) -> None:
    with pytest.raises(OSError, match="refused"):
        push(maintain(storage, TIGHT), query="q", gateway="http://127.0.0.1:9")
