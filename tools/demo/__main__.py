"""`python -m tools.demo [up|down]`: the program of `make demo`, `make up`, `make down`."""

import signal
import sys
from collections.abc import Callable
from types import FrameType

import click

from statemaint.errors import StatemaintError
from tools.demo import run
from tools.demo import up as servers
from tools.demo.places import PROJECT, Places
from tools.demo.session import end_jvm
from tools.demo.show import Steps

_DEMO = Places(PROJECT / ".run" / "demo")
_UP = Places(PROJECT / ".run" / "up")


@click.command()
@click.argument("what", type=click.Choice(["run", "up", "down"]), default="run")
def main(what: str) -> None:
    """Run the demo once, or start (up) and end (down) its servers."""
    signal.signal(signal.SIGTERM, _leave)
    work: dict[str, Callable[[], None]] = {
        "run": lambda: run.demo(_DEMO, Steps(run.STEPS)),
        "up": lambda: servers.up(_UP, Steps(servers.STEPS)),
        "down": lambda: servers.down(_UP),
    }
    try:
        work[what]()
    except KeyboardInterrupt:
        click.echo("interrupted; nothing is left running", err=True)
        sys.exit(128 + signal.SIGINT)
    except StatemaintError as error:
        click.echo(f"{error.code}: {error}", err=True)
        sys.exit(error.exit_code)
    finally:
        end_jvm()


def _leave(number: int, _frame: FrameType | None) -> None:
    # An exception runs every `finally` block, so that nothing is left running.
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
