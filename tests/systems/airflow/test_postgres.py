"""Runs in an Airflow whose database is PostgreSQL, as in production."""

import re
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.systems.airflow.conftest import Ended
from tests.systems.airflow.production import Production
from tests.systems.airflow.support import FLOOR, TARGET, obstacle, snapshots, tree_hash
from tools.demo.airflow_client import Client

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

# In the order in which they are unpaused: `after` must not miss what `good` updates.
QUERY_NAMES = ("after", "good", "dry", "damaged", "twice", "cancelled", "misspelt")
# What manual work is for, in `test_own_dags.py`.
OTHERS = ("repaired", "rolled", "undone", "followed")
BOTH_IN_ALL = {partition: [FLOOR, TARGET] for partition in range(4)}


@pytest.fixture(scope="module")
def folder(production: Production) -> Path:
    return production.listed


@pytest.fixture(scope="module")
def admin(production: Production) -> Client:
    if not production.postgresql:
        pytest.skip("PostgreSQL or psycopg is not installed; `make test-parts` installs both")
    client = production.airflow.client()
    for name in QUERY_NAMES:
        client.wait_for_dag(f"statemaint__{name}")
        client.unpause(f"statemaint__{name}")
    return client


def run(admin: Client, query: str, **conf: object) -> Ended:
    dag = f"statemaint__{query}"
    return ended(admin, dag, admin.trigger(dag, conf))


def ended(admin: Client, dag: str, made: str) -> Ended:
    return Ended(admin, dag, made, admin.wait_for_run(dag, made))


def first_run(admin: Client, query: str) -> Ended:
    """Waits for the end of the first run, which nobody triggered."""
    dag, deadline = f"statemaint__{query}", time.monotonic() + 300
    while not (runs := admin.get(f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    made = min(runs, key=lambda one: one["run_after"])["dag_run_id"]
    return ended(admin, dag, made)


def note(run: Ended) -> str:
    path, deadline = f"/api/v2/dags/{run.dag}/dagRuns/{quote(run.run)}", time.monotonic() + 120
    while not (found := run.client.get(path)["note"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return str(found)


def test_runs_follow_the_schedule_and_an_asset_and_leave_their_notes(
    admin: Client, folder: Path
) -> None:
    for query in ("good", "after"):
        found = first_run(admin, query)
        assert found.state == "success"
        assert snapshots(folder / query) == BOTH_IN_ALL
        assert note(found).startswith("8 snapshots written, 64 files deleted (")


def test_the_plugin_makes_the_pool_there_too(admin: Client) -> None:
    assert admin.get("/api/v2/pools/statemaint")["slots"] == 32
    assert admin.import_errors() == []


def test_a_dry_run_writes_nothing(admin: Client, folder: Path) -> None:
    before = tree_hash(folder / "dry")
    dry = run(admin, "dry", dry_run=True)
    assert dry.states == {"plan": "success", "maintain": "skipped", "report": "skipped"}
    assert note(dry).startswith("DRY RUN, nothing was changed.")
    assert tree_hash(folder / "dry") == before


def test_a_run_from_the_form_maintains_the_partitions_that_it_names(
    admin: Client, folder: Path
) -> None:
    part = run(admin, "dry", partitions=[1, 3], min_batches_to_retain=6)
    names = ("op 0 / part 1", "op 0 / part 3", "plan", "report")
    assert part.states == dict.fromkeys(names, "success")
    assert sorted(snapshots(folder / "dry")) == [1, 3]
    assert note(part).startswith("Only partition 1, 3, as set in the form.")


def test_a_damaged_partition_fails_its_own_task(admin: Client, folder: Path) -> None:
    found = run(admin, "damaged")
    assert (found.state, found.states["op 0 / part 2"]) == ("failed", "failed")
    assert "BROKEN_CHAIN: state/0/2/7.delta is missing" in found.log("op 0 / part 2")
    assert sorted(snapshots(folder / "damaged")) == [0, 1, 3]


def test_a_misspelt_option_and_a_misspelt_entry_fail_with_their_mistake(
    admin: Client, folder: Path
) -> None:
    before = tree_hash(folder / "dry", without="_statemaint")
    option, entry = run(admin, "dry", dry_runn=True), run(admin, "misspelt")
    assert (option.state, option.states["plan"]) == ("failed", "failed")
    assert "the run's configuration has 'dry_runn'" in option.log("plan")
    assert (entry.state, entry.states) == ("failed", {"configuration": "failed"})
    assert "queries.misspelt.cron: no such key" in entry.log("configuration")
    # Only that the run failed is recorded.
    assert tree_hash(folder / "dry", without="_statemaint") == before


def test_of_two_runs_at_once_one_waits_and_finds_nothing_left(admin: Client, folder: Path) -> None:
    dag = "statemaint__twice"
    runs = [ended(admin, dag, one) for one in [admin.trigger(dag) for _ in range(2)]]
    assert [one.state for one in runs] == ["success"] * 2
    assert sorted(str(one.states.get("maintain")) for one in runs) == ["None", "skipped"]
    assert snapshots(folder / "twice") == BOTH_IN_ALL


def test_a_cancelled_run_leaves_no_lease_behind_and_the_next_one_goes_on(
    admin: Client, folder: Path
) -> None:
    dag = "statemaint__cancelled"
    made, deadline = admin.trigger(dag), time.monotonic() + 300
    # A task that waits for its retry has no name yet, but the number that it is mapped by.
    while Ended(admin, dag, made, "running").states.get("1") != "up_for_retry":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    admin.patch(f"/api/v2/dags/{dag}/dagRuns/{quote(made)}", {"state": "failed"})
    assert ended(admin, dag, made).states["report"] == "success"
    obstacle(folder / "cancelled").unlink()
    assert run(admin, "cancelled").state == "success"
    assert snapshots(folder / "cancelled") == BOTH_IN_ALL


def test_the_pages_read_that_database_too(admin: Client) -> None:
    assert first_run(admin, "good").state == "success"
    fleet = admin.page("/statemaint/queries").body
    of_the_file = r'<th scope="row" data-v="(\w+)">.*<a href="[^"]*/statemaint__\1\?'
    assert sorted(re.findall(of_the_file, fleet)) == sorted([*QUERY_NAMES, *OTHERS])
    good = admin.page("/statemaint/dags/statemaint__good").body
    assert "Every partition loads at version 25." in good
    assert good.count('class="cell"') == 4
    partition = admin.page("/statemaint/dags/statemaint__good/partitions/0/1")
    assert (partition.status, "Kept because" in partition.body) == (200, True)
