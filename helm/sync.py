"""Copies the DAG file and the plugin into the chart, which can only deliver its own files.

Run `python helm/sync.py` after a change to either; a test compares them.
"""

import shutil
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_FILES = _ROOT / "helm" / "statemaint" / "files"

COPIES = {
    _ROOT / "dags" / "statemaint_dags.py": _FILES / "dags" / "statemaint_dags.py",
    _ROOT / "plugins" / "statemaint_plugin.py": _FILES / "plugins" / "statemaint_plugin.py",
}


def main() -> None:
    """Makes every copy equal to its source."""
    for source, copy in COPIES.items():
        shutil.copyfile(source, copy)
        print(copy.relative_to(_ROOT))


if __name__ == "__main__":
    main()
