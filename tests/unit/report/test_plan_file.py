"""The file of a plan is read as the document of the verb that made it."""

import pytest

from statemaint.errors import ConfigError
from statemaint.model.ids import RecoveryVerb
from statemaint.report.plan_file import RecoveryFile, UndoFile, parse_plan


def test_the_verb_in_a_file_decides_what_it_must_have() -> None:
    undo = b'{"verb": "undo", "checkpoint": "/c", "run": "r", "fingerprint": "f", "files": 1}'
    assert parse_plan("a file", undo) == UndoFile("/c", "r", "f")
    repair = b'{"verb":"repair","checkpoint":"/c","batch":null,"trash_for":9,"fingerprint":"f"}'
    assert parse_plan("a file", repair) == RecoveryFile(RecoveryVerb.REPAIR, "/c", None, 9.0, "f")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"no json", "not a plan (the file: Invalid JSON"),
        (b"[" * 100_000, "not a plan (the file: "),
        (b'["verb"]', "not a plan (the file: Input should be"),
        (b'{"verb": []}', "not the plan of a repair or rollback (verb: Input should be"),
        (
            b'{"verb": "undo", "checkpoint": "/c", "run": 1, "fingerprint": "f"}',
            "not the plan of an undo (run: Input should be a valid string); use the output of",
        ),
    ],
)
def test_a_file_that_is_no_plan_is_refused_in_one_line(content: bytes, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_plan("a file", content)
    assert str(refused.value).startswith(f"a file: {problem}")
    assert "\n" not in str(refused.value)
