"""The README's example is what the program prints for a checkpoint that Spark made."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

README = ROOT / "README.md"
PLACE = "/data/checkpoints/hourly_revenue"


def test_the_plan_in_the_readme_is_real(neglected: Path) -> None:
    block = README.read_text().split("```console\n")[1].split("```")[0]
    command, _, output = block.replace("\\\n", "").partition("\n")
    words = command.removeprefix("$ statemaint ").replace(PLACE, str(neglected)).split()
    done = subprocess.run(
        [sys.executable, "-m", "statemaint", *words], capture_output=True, check=True, text=True
    )
    assert _without_sizes(done.stdout.replace(str(neglected), PLACE)) == _without_sizes(output)


def _without_sizes(text: str) -> str:
    # How well a delta compresses depends on the order in which Spark's tasks wrote its rows.
    return re.sub(r"\d+\.\d kB *", "N kB", re.sub(" +\n", "\n", text))
