"""`completion`: completes verbs, flags and the names of queries in a shell."""

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_verb(shell: str) -> None:
    """Print the script that completes verbs, flags and queries; the shell must run it."""
    from statemaint.cli.main import program  # noqa: PLC0415 -- which loads this module

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(found(program, {}, "statemaint", "_STATEMAINT_COMPLETE").source())
