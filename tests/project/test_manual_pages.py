"""The manual pages are made from the program's own help."""

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT


def test_the_manual_pages_are_those_of_the_program(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ".ci/man_pages.py", str(tmp_path)], check=True, cwd=ROOT)
    made = {page.name: page.read_text() for page in tmp_path.iterdir()}
    kept = {page.name: page.read_text() for page in (ROOT / "docs" / "man").iterdir()}
    assert made == kept, "run `make generated`"
