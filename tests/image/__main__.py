"""Lints the Dockerfiles and runs the steps of the program's image: `python -m tests.image`.

There is no container engine here. Each step runs as it is written, in a root of its stage, over
another base than that of `FROM`: the machine's own root, or an unpacked one that `--base` names.
What that leaves open is in docs/upgrade.md. It takes root, a package index, and some minutes.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.checkpoints.archive import contents
from tests.image.dockerfile import Stage, hadolint, stages
from tests.image.roots import Root, with_python
from tests.support.paths import ROOT

DOCKERFILE = ROOT / "Dockerfile"
LINTED = (DOCKERFILE, ROOT / "helm" / "airflow.Dockerfile")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# No program of these names may be in what the image adds to its base, nor a package.
_TOOLS = re.compile(r"(pip|setuptools|wheel|hatchling|gcc|cc|ld|make)[0-9.]*")
_COMPILES = "statemaint compiles its loops"


def lint() -> None:
    """Runs hadolint, which must have nothing to say."""
    program = hadolint()
    if program is None:
        sys.exit("there is no hadolint; `make setup` installs it")
    subprocess.run([program, *map(str, LINTED)], check=True)
    _say(f"linted: {', '.join(path.name for path in LINTED)}")


def build(base: Path, folder: Path) -> tuple[Root, Stage]:
    """Runs every step of every stage; returns the last root and its stage."""
    built: dict[str, Root] = {}
    bases = with_python(base, folder / "python")
    for stage in stages(DOCKERFILE):
        root = Root(bases, folder / (stage.name or "image"))
        root.make()
        built[stage.name] = root
        _run(root, stage, built)
    return root, stage


def _run(root: Root, stage: Stage, built: dict[str, Root]) -> None:
    environment, folder = {"PATH": _PATH, "HOME": "/root"}, "/"
    for step in stage.steps:
        _say(f"{step.instruction} {step.text[:90]}")
        if step.instruction == "WORKDIR":
            folder = step.text
            root.make_folder(folder)
        elif step.instruction == "ENV":
            environment |= step.variables(environment)
        elif step.instruction == "COPY":
            _copy(root, step.words, folder, built)
        elif step.instruction == "RUN":
            root.run(["sh", "-c", f"cd {folder} && {step.text}"], environment)


def _copy(root: Root, words: list[str], folder: str, built: dict[str, Root]) -> None:
    *sources, target = (word for word in words if not word.startswith("--"))
    origin = [word.partition("=")[2] for word in words if word.startswith("--from=")]
    place = built[origin[0]].changes if origin else ROOT
    for source in sources:
        root.copy(place / source.lstrip("/"), os.path.join(folder, target))  # noqa: PTH118 -- a path of the root


def check_content(root: Root) -> None:
    """Checks what the image adds to its base: the program, and no tool that builds."""
    added = [path for path in root.changes.rglob("*") if path.is_file() and not path.is_symlink()]
    tools = sorted(str(path) for path in added if _is_tool(path.relative_to(root.changes)))
    if tools:
        sys.exit(f"left in the image: {', '.join(tools)}")
    foreign = [path for path in added if not _is_ours(path.relative_to(root.changes))]
    if foreign:
        sys.exit(f"added outside of the program's folder: {', '.join(map(str, foreign[:5]))}")
    size = sum(path.stat().st_size for path in added)
    _say(
        f"the image adds {len(added)} files, {size / 1e6:.0f} MB; no tool that builds is among them"
    )


def _is_tool(path: Path) -> bool:
    return path.parent.name in ("bin", "site-packages") and bool(_TOOLS.fullmatch(path.name))


def _is_ours(path: Path) -> bool:
    return path.parts[:2] == ("opt", "statemaint")


def check_runs(root: Root, stage: Stage) -> None:
    """Runs the program as a restricted pod does: another user, no rights, a read-only root."""
    environment = {"PATH": _PATH}
    for step in stage.of("ENV"):
        environment |= step.variables(environment)
    [user] = (step.text for step in stage.of("USER"))
    for path, content in next(iter(contents("4.3.0").values())).items():
        root.add(f"/data/{path}", content)
    commands = {
        "help": ["statemaint", "--help"],
        "scan": ["statemaint", "scan", "/data"],
        "doctor": ["statemaint", "doctor", "/data"],
        "loops": ["/opt/statemaint/bin/python", "-m", "statemaint.fold"],
        "user": ["/opt/statemaint/bin/python", "-c", "import os; print(os.getuid(), os.getgid())"],
        "root": ["sh", "-c", "! touch /opt/statemaint/x /x 2>/dev/null && echo read-only"],
        "pip": ["sh", "-c", "! python -m pip --version 2>/dev/null && echo without pip"],
    }
    for name, command in commands.items():
        done = root.run_as_pod(command, environment, user=user)
        said = (done.stdout + done.stderr).strip()
        if done.returncode or _COMPILES in said:
            sys.exit(f"{name}: exit code {done.returncode}: {said}")
        _say(f"{name}: {said.partition(chr(10))[0] or 'well'}")


def _say(what: str) -> None:
    print(what, flush=True)  # noqa: T201 -- its result


def _place(base: Path) -> Path | None:
    # An overlay refuses to keep its changes in a folder of its own base.
    return Path("/dev/shm") if base == Path("/") else None  # noqa: S108 -- a file system of its own


def main() -> None:
    """Lints, builds and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, default=Path("/"), help="an unpacked root of Debian")
    parser.add_argument("--keep", type=Path, help="a folder for the roots, which are kept then")
    given = parser.parse_args()
    lint()
    with tempfile.TemporaryDirectory(prefix="statemaint-image-", dir=_place(given.base)) as folder:
        root, stage = build(given.base, given.keep or Path(folder))
        check_content(root)
        check_runs(root, stage)
    _say("built and run")


if __name__ == "__main__":
    main()
