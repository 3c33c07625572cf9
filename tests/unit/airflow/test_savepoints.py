"""The work of the DAG of a query's savepoints: made, completed by another attempt, expired."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.savepoints import SavepointOptions, expired, saved
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import ConfigError
from statemaint.maintain.record import read_record
from statemaint.model.policy import PRESETS
from statemaint.queries.models import SavepointSettings
from statemaint.records.savepoints import read_savepoint, write_savepoint
from statemaint.savepoint.run import UNFINISHED
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.savepoints import savepoint_on_disk

NEWEST = SavepointOptions()


@pytest.fixture
def settings(tmp_path: Path) -> QuerySettings:
    (tmp_path / "clicks").mkdir()
    write_checkpoint(LocalStorage(tmp_path / "clicks"))
    return QuerySettings("clicks", str(tmp_path / "clicks"), PRESETS["safe"])


@pytest.fixture
def where(tmp_path: Path) -> SavepointSettings:
    return SavepointSettings(to=f"{tmp_path}/to/{{query}}/{{batch}}", keep={"last": 1})


def in_folder(where: SavepointSettings) -> list[str]:
    return sorted(one.name for one in Path(where.folder("clicks")).iterdir())


def unfinished(where: SavepointSettings, batch: int, begun: float) -> None:
    """Takes back the end of the savepoint of a batch."""
    storage = LocalStorage(Path(where.address("clicks", batch)))
    note = read_savepoint(storage)
    assert note
    write_savepoint(storage, replace(note, ended=None, begun=begun))
    storage.replace("metadata", [UNFINISHED])


def test_the_newest_batch_is_saved_where_the_file_says_and_noted(
    settings: QuerySettings, where: SavepointSettings
) -> None:
    report, newest = saved(settings, where, NEWEST)
    assert report.dest == where.address("clicks", 24)
    record = read_record(LocalStorage(Path(settings.checkpoint)))
    assert record
    assert newest
    assert record.savepoint == newest
    assert (newest.batch, newest.bytes) == (24, report.written)


def test_without_a_newer_batch_the_savepoint_that_is_there_counts_as_new(
    settings: QuerySettings, where: SavepointSettings
) -> None:
    _, first = saved(settings, where, NEWEST)
    report, again = saved(settings, where, NEWEST)
    assert report.continued == report.stores == 2
    assert first
    assert again
    assert again.ended > first.ended
    assert replace(again, ended=first.ended) == first


def test_the_form_names_a_batch_another_place_a_fork_or_a_dry_run(
    settings: QuerySettings, where: SavepointSettings, tmp_path: Path
) -> None:
    form = SavepointOptions(batch=20, new_id=True, to=f" {tmp_path}/fork ")
    dry, none = saved(settings, where, replace(form, dry_run=True))
    assert (dry.note.batch, dry.note.ended, none) == (20, None, None)
    assert not (tmp_path / "fork").exists()
    fork, none = saved(settings, where, form)
    assert (fork.dest, fork.note.batch, none) == (f"{tmp_path}/fork", 20, None)
    assert fork.note.id != fork.note.query_id
    assert read_record(LocalStorage(Path(settings.checkpoint))) is None
    with pytest.raises(ValueError, match="depends on where a task happens to run"):
        saved(settings, where, SavepointOptions(to="fork"))
    with pytest.raises(ConfigError, match="already"):
        saved(settings, where, SavepointOptions(to=f"{tmp_path}/fork"))


@pytest.mark.parametrize(
    ("since", "batch"), [(None, 24), (1000.0, 23), (2000.1, 24)], ids=["first", "again", "older"]
)
def test_another_attempt_completes_what_its_run_has_begun(
    settings: QuerySettings, where: SavepointSettings, since: float | None, batch: int
) -> None:
    saved(settings, where, replace(NEWEST, batch=23))
    unfinished(where, 23, begun=2000.0)
    report, _ = saved(settings, where, NEWEST, since=since)
    assert report.note.batch == batch
    assert report.continued == (2 if batch == 23 else 0)


def test_a_batch_that_is_no_longer_committed_is_not_completed(
    settings: QuerySettings, where: SavepointSettings
) -> None:
    saved(settings, where, replace(NEWEST, batch=23))
    unfinished(where, 23, begun=2000.0)
    (Path(settings.checkpoint) / "commits/23").unlink()
    (Path(settings.checkpoint) / "commits/.23.crc").unlink(missing_ok=True)
    assert saved(settings, where, NEWEST, since=1000.0)[0].note.batch == 24


def test_those_that_no_rule_keeps_are_deleted_and_those_of_others_stay(
    settings: QuerySettings, where: SavepointSettings
) -> None:
    for batch in (22, 23, 24):
        saved(settings, where, replace(NEWEST, batch=batch))
    savepoint_on_disk(Path(where.folder("clicks")) / "other", batch=1, ended=1.6e9)
    assert {one.left for one in expired(settings, replace_keep(where, None))} == {None}
    assert in_folder(where) == ["22", "23", "24", "other"]
    listed = expired(settings, where)
    fates = [(one.note.batch, one.left) for one in listed if one.note]
    assert fates == [(24, None), (23, ()), (22, ())]
    assert in_folder(where) == ["24", "other"]
    assert [one.kept for one in expired(settings, where)] == [("newest", "last")]


def replace_keep(where: SavepointSettings, keep: dict[str, int] | None) -> SavepointSettings:
    return where.model_copy(update={"keep": keep})
