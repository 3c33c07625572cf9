"""docs/cli.md, made from the verbs: `python -m tools.cli_reference`."""

import click

from statemaint.cli.main import VERBS, program

_WIDTH = 100
_HEAD = """\
# The command line

Made from the program by `make generated`. Results go to stdout, all else to stderr. The fields of
`--json` are in [json.md](json.md), the steps for a finding in the [runbook](runbook.md).

`URI` is a checkpoint's address, or the name of a query in the
[queries file](airflow.md#the-queries-file), whose policy it then has. A name that is also that of a
folder here is the query's with `--queries`, or if the folder is its checkpoint; otherwise it is
refused. `scan`, `doctor`, `verify`, `stats` and `maintain` also take a folder or bucket of many
checkpoints.
"""


def reference() -> str:
    pieces, context = [_HEAD, _block(program, "statemaint")], click.Context(program)
    for verb in VERBS:
        command = program.get_command(context, verb) or program
        pieces += [f"## {verb}\n", _block(command, f"statemaint {verb}")]
    return "\n".join(pieces)


def _block(command: click.Command, path: str) -> str:
    context = click.Context(
        command,
        info_name=path,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    return "```text\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    click.echo(reference(), nl=False)
