"""Names that ids become."""

import pytest

from statemaint.model.ids import run_folder


@pytest.mark.parametrize(
    ("run", "folder"),
    [
        ("manual__2026-11-21T14:00:00+00:00", "manual__2026-11-21T14-00-00-00-00"),
        ("..a/b.", "a-b."),
        ("Az09_.@=-", "Az09_.@=-"),
        (".X.", "X."),
        ("...", "-"),
        ("", "-"),
    ],
)
def test_the_folder_of_a_run(run: str, folder: str) -> None:
    assert run_folder(run) == folder
