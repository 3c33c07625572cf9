"""The work of the DAG that saves a query in another shape: shown, then carried out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.form import reshape_form
from statemaint.airflow.recoveries import reshaped, shape_shown
from statemaint.airflow.settings import QuerySettings
from statemaint.audit import verify
from statemaint.errors import ConfigError, Superseded
from statemaint.model.policy import PRESETS
from statemaint.records.savepoints import PROVIDERS, Shape, read_savepoint
from statemaint.storage import LocalStorage
from tests.unit.cli.test_show import unpacked


@pytest.fixture
def settings(tmp_path: Path) -> QuerySettings:
    root = unpacked("join2", tmp_path / "join")
    return QuerySettings("join", str(root), PRESETS["safe"])


def form(to: object, **chosen: Any) -> dict[str, Any]:
    """The form as it is filled in."""
    return dict.fromkeys(reshape_form()) | {"to": str(to), **chosen}


def test_the_plan_has_each_operator_before_and_after_and_writes_nothing(
    settings: QuerySettings, tmp_path: Path
) -> None:
    shown = shape_shown(settings, form(tmp_path / "to", partitions=5))
    assert shown.document
    head, operator = shown.log.splitlines()
    assert head.startswith(f"savepoint of {settings.checkpoint} to {tmp_path}/to: ")
    assert "partitions 2 to 5" in head
    assert operator.startswith("operator  0: 56 rows (")
    assert "\n- **operator**: 0\\: 56 rows \\(" in shown.text
    assert ", from 2 partitions (largest " in operator
    assert " to 5 partitions (largest " in operator
    assert "; at most " in operator
    assert not (tmp_path / "to").exists()


def test_an_approved_shape_is_saved_and_the_log_has_the_code_that_starts_it(
    settings: QuerySettings, tmp_path: Path
) -> None:
    asked = form(tmp_path / "to", partitions=5)
    document = shape_shown(settings, asked).document
    assert document is not None
    done = reshaped(settings, asked, document)
    storage = LocalStorage(tmp_path / "to")
    assert verify(storage, deep=True).healthy
    note = read_savepoint(storage)
    assert note
    assert (note.before.partitions, note.shape) == (2, Shape(partitions=5))
    assert done.log.splitlines()[-1] == f'.option("checkpointLocation", "{tmp_path}/to")'
    assert done.figures == {"snapshots_written": 20, "bytes_written": sum(note.files.values())}


def test_no_checkpoint_but_the_shown_one_is_saved(settings: QuerySettings, tmp_path: Path) -> None:
    asked = form(tmp_path / "to", partitions=5)
    document = shape_shown(settings, asked).document
    assert document is not None
    changed = replace(settings, checkpoint=str(unpacked("join2", tmp_path / "other")))
    with pytest.raises(Superseded, match="of another checkpoint"):
        reshaped(changed, asked, document)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("chosen", "text"),
    [({}, "the form has no other shape"), ({"to": "here", "partitions": 3}, "to: 'here' depends")],
)
def test_a_form_without_a_shape_or_a_place_is_refused(
    settings: QuerySettings, tmp_path: Path, chosen: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        shape_shown(settings, form(**{"to": tmp_path / "to", **chosen}))


def test_the_form_has_every_choice_of_a_shape() -> None:
    named = Shape.__dataclass_fields__.keys() - {"row_checksums"}
    assert reshape_form().keys() == {"to", *named}
    assert reshape_form()["provider"].schema["enum"] == [None, *PROVIDERS]
