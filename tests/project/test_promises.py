"""docs/stability.md: what a release has promised is still there."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from statemaint.cli.main import program
from tests.support.promised import PROMISED, names

RELEASES = sorted(PROMISED.glob("*.txt"))
# Words of json.md that were no fields, and a label that docs/metrics.md no longer repeats: all
# metrics have it.
OTHERS = {
    "field of JSON doctor",
    "field of JSON maintain",
    "field of JSON null",
    "metric query_info origin",
}


def hidden_flags() -> Iterator[str]:
    for verb in program.list_commands(click.Context(program)):
        command = program.get_command(click.Context(program), verb)
        for option in command.params if command else ():
            yield from (f"verb {verb} {flag}" for flag in option.opts)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.stem)
def test_names_that_a_release_has_promised_are_kept(release: Path) -> None:
    promised = set(release.read_text().splitlines())
    assert promised
    assert promised - {*names()} - {*hidden_flags()} - OTHERS == set()
