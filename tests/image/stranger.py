"""`python -m tests.image.stranger --base ROOT`: the wheel in the hands of an ordinary user.

ROOT is an unpacked root of Debian or Ubuntu with `python3` and `python3-venv`, such as one of
debootstrap. In a copy of it a new user installs the wheel and each of its extras, then works
without a network: in a folder with spaces in its name, in a pipe, under `LANG=C` and without Java.
It takes root, a package index, and some minutes; `--extra` names the extras to try.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.checkpoints.archive import contents
from tests.image.roots import Root
from tests.support.paths import ROOT

EXTRAS = ("s3", "rocksdb", "metrics", "arrow", "hadoop", "spark", "airflow")
_UID = 4321
_HOME = "/home/stranger"
_PLACE = f"{_HOME}/my checkpoints"
_ENVIRONMENT = {
    "PATH": f"{_HOME}/my env/bin:/usr/bin:/bin", "HOME": _HOME, "LANG": "C", "USER": "stranger",
}  # fmt: skip
# What is run after the first installation, and words of what it must say.
_WORK = (
    ("statemaint --version", "statemaint, version"),
    ("statemaint scan 'my checkpoints/one'", "stores, "),
    ("statemaint scan 'my checkpoints'", "2 checkpoints, "),
    ("statemaint doctor 'my checkpoints/one' | cat", "restart:  yes"),
    ("statemaint scan 'my checkpoints/one' --all | head -n 1", "checkpoint  "),
    ("statemaint maintain 'my checkpoints/one' --min-deltas-for-snapshot 5", "2 snapshots written"),
    ("statemaint runs 'my checkpoints/one' --json | python -m json.tool", '"snapshots_written": 2'),
    ("cp -r 'my checkpoints/one' 'zu z\u00e4hlen' && statemaint scan 'zu z\u00e4hlen'", "stores, "),
    ("statemaint digest 'my checkpoints/two' 2>&1 || true", "pip install 'statemaint[rocksdb]'"),
    ("statemaint scan s3://bucket/one 2>&1 || true", "pip install 'statemaint[s3]'"),
    ("statemaint scan hdfs://host/one 2>&1 || true", "pip install 'statemaint[hadoop]'"),
    ("test -f 'my env/share/man/man1/statemaint-scan.1' && echo page", "page"),
    ("statemaint completion bash", "_STATEMAINT_COMPLETE"),
)
_ARROW = (
    """python -c "import statemaint as s; """
    """print(len(s.open('my checkpoints/one').show()), 'rows of Arrow')\""""
)
# What an extra is good for, once it is there.
_EXTRA_WORK = {
    "rocksdb": ("statemaint digest 'my checkpoints/two'", "rows in 2 stores"),
    "s3": (
        "AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b statemaint scan s3://one/two 2>&1 || true",
        "statemaint: STORAGE",
    ),
    "metrics": ("statemaint exporter --help", "--queries"),
    "arrow": (_ARROW, "rows of Arrow"),
    "hadoop": ("statemaint scan hdfs://host/one 2>&1 || true", "Java 17 or later"),
    "spark": ("python -m statemaint.spark --help", "maintain"),
    "airflow": ("python -c 'import statemaint.airflow.operators; print(1)'", "1"),
}


def main() -> None:
    """Installs and works."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True, help="an unpacked root")
    parser.add_argument("--extra", action="append", choices=EXTRAS, help="default: each")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="statemaint-stranger-") as folder:
        root = Root((given.base,), Path(folder) / "root")
        root.make()
        wheel = _prepare(root, Path(folder))
        _say(root, "python3 --version", "Python", offline=True)
        _say(root, "python3 -m venv 'my env'", "")
        _say(root, f"'my env/bin/pip' install --quiet {wheel} 2>&1 | grep -v WARNING || true", "")
        for command, words in _WORK:
            _say(root, command, words, offline=True)
        for extra in given.extra or EXTRAS:
            install = f"'my env/bin/pip' install --quiet '{wheel}[{extra}]' 2>&1 || true"
            _say(root, f"{install} | grep -v WARNING", "")
            _say(root, *_EXTRA_WORK[extra], offline=True)


def _prepare(root: Root, folder: Path) -> str:
    """Makes the user with two checkpoints; returns the path of the wheel in the root."""
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder))
    path = f"{_HOME}/{Path(wheel).name}"
    root.add(path, Path(wheel).read_bytes())
    for name, archive, kind in (
        ("one", "4.3.0", "aggregation2"),
        ("two", "rocks-4.3.0", "rocks-timed"),
    ):
        for file, content in contents(archive)[kind].items():
            root.add(f"{_PLACE}/{name}/{file}", content)
    line = f"stranger:x:{_UID}:{_UID}::{_HOME}:/bin/sh"
    root.run(
        ["sh", "-c", f"echo '{line}' >> /etc/passwd; chown -R {_UID}:{_UID} {_HOME}"],
        {"PATH": "/usr/bin:/bin"},
    )
    return path


def _say(root: Root, command: str, words: str, *, offline: bool = False) -> None:
    """Runs a command in the user's home, and says how it went; ends where it did not."""
    began = time.monotonic()
    done = root.run_as_user(
        ["sh", "-c", f"cd {_HOME} && {command}"], _ENVIRONMENT, uid=_UID, offline=offline
    )
    said = (done.stdout + done.stderr).strip()
    if done.returncode or words not in said or "Traceback" in said:
        sys.exit(f"{command}: exit code {done.returncode}, without {words!r}: {said}")
    took = time.monotonic() - began
    sys.stdout.write(f"{took:6.1f} s  {command}: {said.splitlines()[-1] if said else 'well'}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
