"""Lints the Dockerfiles and runs the steps of the program's images: `python -m tests.image`.

There is no container engine here. Each step runs as it is written, in a root of its stage, over
another base than that of `FROM`: the machine's own root, or an unpacked one that `--base` names.
What that leaves open is in docs/upgrade.md. It takes root, a package index, 5 GB and ten minutes.
`--target cli` is done in two.
"""

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from statemaint import __version__
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
# The bill of materials of each target, and the commands that are tried in it alone.
BILLS = {
    "cli": "requirements-image.lock",
    "spark": "requirements-spark.lock",
    "hadoop": "requirements-spark.lock",
}
_NAMES = (
    "import json; from importlib import metadata; "
    "print(json.dumps([[one.name, one.version] for one in metadata.distributions()]))"
)
_PYTHON = "/opt/statemaint/bin/python"
_JAR, _RESOURCE = "/given/client-1.0.jar", "a-client-of-hadoop.txt"
_CLIENT = (
    "from pyspark import SparkContext; spark = SparkContext('local[1]'); "
    f"print(spark._jvm.java.lang.ClassLoader.getSystemResource('{_RESOURCE}').toString())"
)


@dataclass(frozen=True)
class Image:
    """One stage as it is after its steps.

    Attributes:
        target: the stage's name.
        root: what it has; its uppermost layer is its own.
        layers: the folders of its own changes, and of those of the stages that it begins with.
        environment: its variables.
        folder: where its next step would run.
        stages: itself, after the stages that it begins with.
    """

    target: str
    root: Root
    layers: tuple[Path, ...]
    environment: dict[str, str]
    folder: str
    stages: tuple[Stage, ...]

    @cached_property
    def user(self) -> str:
        return [step.text for stage in self.stages for step in stage.of("USER")][-1]

    @property
    def added(self) -> dict[Path, int]:
        """Returns the files that it adds to its base, with their sizes."""
        return {
            path.relative_to(layer): path.stat().st_size
            for layer in self.layers
            for path in layer.rglob("*")
            if path.is_file() and not path.is_symlink()
        }


def lint() -> None:
    """Runs hadolint, which must have nothing to say."""
    program = hadolint()
    if program is None:
        sys.exit("there is no hadolint; `make setup` installs it")
    subprocess.run([program, *map(str, LINTED)], check=True)
    _say(f"linted: {', '.join(path.name for path in LINTED)}")


def build(base: Path, folder: Path, target: str | None) -> dict[str, Image]:
    """Runs every step of every stage that a target needs; returns them by name."""
    built: dict[str, Image] = {}
    bases = with_python(base, folder / "python")
    every = stages(DOCKERFILE)
    wanted = _needed({stage.name: stage for stage in every}, target)
    for stage in (one for one in every if one.name in wanted):
        parent = built.get(stage.base)
        below = (*parent.layers, *bases) if parent else bases
        root = Root(below, folder / stage.name)
        root.make()
        image = Image(
            target=stage.name,
            root=root,
            layers=(root.changes, *(parent.layers if parent else ())),
            environment=dict(parent.environment if parent else {"PATH": _PATH, "HOME": "/root"}),
            folder=parent.folder if parent else "/",
            stages=(*(parent.stages if parent else ()), stage),
        )
        built[stage.name] = _run(image, stage, built)
    return built


def _needed(every: dict[str, Stage], target: str | None) -> set[str]:
    """Returns the stages that a target begins with or copies from; all without a target."""
    if target is None:
        return set(every)
    stage = every[target]
    origins = [word[7:] for step in stage.of("COPY") for word in step.words if "--from=" in word]
    below = [name for name in (stage.base, *origins) if name in every]
    return {target}.union(*(_needed(every, name) for name in below))


def _run(image: Image, stage: Stage, built: dict[str, Image]) -> Image:
    root, environment, folder = image.root, image.environment, image.folder
    arguments: dict[str, str] = {}
    for step in stage.steps:
        _say(f"{stage.name}: {step.instruction} {step.text[:90]}")
        if step.instruction == "WORKDIR":
            folder = step.text
            root.make_folder(folder)
        elif step.instruction == "ENV":
            environment |= step.variables(environment)
        elif step.instruction == "ARG":
            arguments[step.text.partition("=")[0]] = _jar(root)
        elif step.instruction == "COPY":
            _copy(root, step.words, folder, built)
        elif step.instruction == "RUN":
            root.run(["sh", "-c", f"cd {folder} && {step.text}"], environment | arguments)
    return replace(image, folder=folder)


def _jar(root: Root) -> str:
    """Puts a jar into a root, and returns its address as the one argument of the build, JARS."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as jar:
        jar.writestr(_RESOURCE, "here")
    root.add(_JAR, content.getvalue())
    return f"file://{_JAR}#sha256={hashlib.sha256(content.getvalue()).hexdigest()}"


def _copy(root: Root, words: list[str], folder: str, built: dict[str, Image]) -> None:
    *sources, target = (word for word in words if not word.startswith("--"))
    origin = [word.partition("=")[2] for word in words if word.startswith("--from=")]
    places = built[origin[0]].layers if origin else (ROOT,)
    to = os.path.join(folder, target)  # noqa: PTH118 -- a path of the root
    for source in sources:
        for place in reversed(places):  # the uppermost layer last
            if (found := place / source.lstrip("/")).exists():
                root.copy(found, to)


def check_content(image: Image) -> None:
    """Checks what an image adds to its base: the program, and no tool that builds."""
    added = image.added
    if tools := sorted(str(path) for path in added if _is_tool(path)):
        sys.exit(f"left in the image: {', '.join(tools)}")
    if foreign := [str(path) for path in added if not _is_ours(path)]:
        sys.exit(f"added outside of the program's folder: {', '.join(foreign[:5])}")
    size = f"{len(added)} files, {sum(added.values()) / 1e6:.0f} MB"
    _say(f"{image.target}: adds {size}; no tool that builds is among them")


def _is_tool(path: Path) -> bool:
    return path.parent.name in ("bin", "site-packages") and bool(_TOOLS.fullmatch(path.name))


def _is_ours(path: Path) -> bool:
    return path.parts[:2] == ("opt", "statemaint") or path == Path("etc/passwd")


def check_bill(image: Image) -> None:
    """Checks that the bill of materials has the packages that are in an image, and no others."""
    bill = json.loads(
        subprocess.run(
            [sys.executable, ROOT / ".ci" / "sbom.py", BILLS[image.target]],
            capture_output=True, check=True,
        ).stdout
    )  # fmt: skip
    listed = {(one["name"], one["version"]) for one in bill["components"]}
    found = {
        (name.lower().replace("_", "-").replace(".", "-"), version)
        for name, version in json.loads(_said(image, [_PYTHON, "-c", _NAMES]))
    } - {("statemaint", __version__)}
    if more := found - listed:
        sys.exit(f"{image.target}: not in the bill of materials: {sorted(more)}")
    if missing := {name for name, _ in listed} - {name for name, _ in found}:
        sys.exit(f"{image.target}: not in the image: {sorted(missing)}")
    _say(f"{image.target}: the {len(found)} packages of its bill of materials")


def _said(image: Image, command: list[str]) -> str:
    """Runs a command as a restricted pod does: another user, no rights, a read-only root."""
    done = image.root.run_as_pod(command, image.environment, user=image.user)
    said = (done.stdout + done.stderr).strip()
    if done.returncode or _COMPILES in said:
        sys.exit(f"{image.target}: {command}: exit code {done.returncode}: {said}")
    return done.stdout.strip() or said


def check_runs(image: Image) -> None:
    """Runs the program in an image."""
    for path, content in next(iter(contents("4.3.0").values())).items():
        image.root.add(f"/data/{path}", content)
    image.root.add("/queries/queries.yaml", b"queries:\n  one: {checkpoint: /data}\n")
    for name, command in _commands(image.target).items():
        said = _said(image, command)
        _say(f"{image.target}, {name}: {said.splitlines()[-1] if said else 'well'}")


def _commands(target: str) -> dict[str, list[str]]:
    """Returns the commands that are tried in a target, by what they show."""
    entry = ["statemaint"] if target == "cli" else ["entrypoint"]
    commands = {
        "help": [*entry, "--help"],
        "scan": [*entry, "scan", "/data"],
        "doctor": [*entry, "doctor", "/data"],
        "loops": [_PYTHON, "-m", "statemaint.fold"],
        "user": [_PYTHON, "-c", "import os; print(os.getuid(), os.getgid())"],
        "root": ["sh", "-c", "! touch /opt/statemaint/x /x 2>/dev/null && echo read-only"],
        "pip": ["sh", "-c", "! python -m pip --version 2>/dev/null && echo without pip"],
    }
    fleet = ["--queries", "/queries/queries.yaml"]
    submitted = ["--conf", "spark.master=local[1]", "--conf", "spark.ui.enabled=false"]
    submitted += ["--class", "org.apache.spark.deploy.PythonRunner"]
    of_spark = {
        "a fleet": [_PYTHON, "-m", "statemaint.spark", "inventory", *fleet, "--master", "local[1]"],
        "a driver": [
            *("entrypoint", "driver", *submitted),
            *("local:///opt/statemaint/statemaint-spark.py", "inventory", *fleet),
        ],
    }
    clients = {"a jar": [_PYTHON, "-c", _CLIENT]}
    return (
        commands | (of_spark if target != "cli" else {}) | (clients if target == "hadoop" else {})
    )


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
    parser.add_argument("--target", choices=BILLS, help="only this one of the images")
    given = parser.parse_args()
    lint()
    with tempfile.TemporaryDirectory(prefix="statemaint-image-", dir=_place(given.base)) as folder:
        built = build(given.base, given.keep or Path(folder), given.target)
        images = [built[name] for name in BILLS if name in built]
        for image in images:
            check_content(image)
            check_bill(image)
        for image in images:  # adds files of its own, also to those above it
            check_runs(image)
    _say("built and run")


if __name__ == "__main__":
    main()
