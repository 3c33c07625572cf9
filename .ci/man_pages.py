"""Writes docs/man: a manual page of the program and of each verb, from their help."""

import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

from statemaint import __version__
from statemaint.cli.main import EXAMPLES, VERBS, program

_HERE = Path(__file__).parent.parent / "docs" / "man"
_DATE = "2026"


def main(folder: str = "") -> None:
    """Writes the pages into a folder, docs/man by default."""
    place = Path(folder or _HERE)
    place.mkdir(parents=True, exist_ok=True)
    context = click.Context(program)
    verbs = {verb: program.get_command(context, verb) for verb in VERBS}
    group = click.Group("statemaint", help=program.help, params=program.params)
    for verb, command in verbs.items():
        if command is not None:
            group.add_command(command, verb)
    write_man_pages("statemaint", group, version=__version__, target_dir=str(place), date=_DATE)
    for verb in VERBS:
        page = place / f"statemaint-{verb}.1"
        page.write_text(page.read_text().rstrip("\n") + "\n" + _examples(verb))


def _examples(verb: str) -> str:
    lines = [f"{why}:\n.PP\n.nf\n    {command}\n.fi\n.PP" for why, command in EXAMPLES[verb]]
    return ".SH EXAMPLES\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
