"""Fuzzes the decoders: `python -m tests.fuzz --seconds N [TARGET]`; all in turn without a target.

Each target runs in a process of its own, which may take ten seconds for an input, and 1 GiB on top
of the memory it starts with. An input that breaks a rule is left in `.run/fuzz/TARGET/`, and the
program ends with the fuzzer's code.
"""

import argparse
import importlib
import resource
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import atheris

FOUND = Path(".run/fuzz")
_MEMORY = 1 << 30
_LONGEST = 16 * 1024


def main() -> int:
    """Fuzzes what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long, all targets together")
    parser.add_argument("target", nargs="?")
    asked = parser.parse_args()
    if asked.target:
        _fuzz(asked.target, asked.seconds)  # ends the process itself
    return _fuzz_all(asked.seconds)


def _fuzz_all(seconds: int) -> int:
    """Runs every target for its share; returns the worst exit code."""
    names = sorted(_targets())
    share = str(max(1, seconds // len(names)))
    worst = 0
    for name in names:
        sys.stdout.write(f"--- {name}\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "tests.fuzz", "--seconds", share, name]
        worst = max(worst, subprocess.run(command, check=False).returncode)
    return worst


def _targets() -> dict[str, Any]:
    targets: dict[str, Any] = importlib.import_module("tests.fuzz.targets").TARGETS
    folds = importlib.import_module("tests.fuzz.folds").FOLDS
    return {**targets, **folds, **importlib.import_module("tests.fuzz.stretches").STRETCHES}


def _fuzz(name: str, seconds: int) -> None:
    kernels = Path("statemaint/fold/compiled/kernels").glob("*.py")
    # What numba compiles must stay as it is.
    skipped = [".".join(path.with_suffix("").parts) for path in kernels]
    with atheris.instrument_imports(include=["statemaint"], exclude=skipped):
        target = _targets()[name]

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)  # noqa: S311 -- no secret depends on it
        if random.random() < 0.3:
            data = atheris.Mutate(data, most)
        changed: bytes = target.variant(data, random)
        return changed[:most]

    options = [
        f"-max_total_time={seconds}",
        f"-max_len={_LONGEST}",
        "-timeout=10",
        "-rss_limit_mb=0",  # the limit below ends in an error that names the line
        "-print_final_stats=1",
        f"-artifact_prefix={_folder(name)}/",
        str(_seeded(name, target)),
    ]
    atheris.Setup([sys.argv[0], *options], target.check, custom_mutator=mutate)
    _limit_memory()
    atheris.Fuzz()


def _folder(name: str) -> Path:
    folder = FOUND / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _seeded(name: str, target: Any) -> Path:
    """Returns the target's corpus: its seeds, and what earlier runs found to be interesting."""
    corpus = _folder(name) / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    return corpus


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    sys.exit(main())
