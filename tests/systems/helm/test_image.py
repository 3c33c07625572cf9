"""The Dockerfiles, as far as they can be read; `make test-image` runs the steps."""

import re
import subprocess
import tomllib
from fnmatch import fnmatchcase

import pytest
import yaml

from tests.image.dockerfile import Stage, hadolint, stages
from tests.support.paths import ROOT
from tests.systems.helm.support import CHART, one, render

pytestmark = pytest.mark.helm

STAGES = stages(ROOT / "Dockerfile")
AIRFLOW = stages(ROOT / "helm" / "airflow.Dockerfile")
LOCKS = ("requirements-image.lock", "requirements-build.lock")
NAME = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def pins(lock: str) -> dict[str, set[str]]:
    """Returns the versions of each package in a lock file; some differ by the Python."""
    found: dict[str, set[str]] = {}
    for name, version in NAME.findall((ROOT / lock).read_text()):
        found.setdefault(name, set()).add(version)
    return found


def environment(stage: Stage) -> dict[str, str]:
    found = {"PATH": "/bin"}
    for step in stage.of("ENV"):
        found |= step.variables(found)
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_its_hashes_and_the_version_that_is_tested(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    entries = [entry for entry in re.split(r"\n(?=\S)", text.strip()) if entry]
    assert all("--hash=sha256:" in entry for entry in entries)
    tested = pins("requirements.lock")
    assert all(tested[name] == versions for name, versions in pins(lock).items())


def test_the_lock_has_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[><=; \[]", one)[0].replace(".", "-") for one in project["dependencies"]}
    assert needed <= pins("requirements-image.lock").keys()


def test_everything_is_installed_by_hash_or_from_the_sources() -> None:
    for step in STAGES[0].of("RUN"):
        for command in step.text.split("&&"):
            if " install " in command:
                assert "--require-hashes" in command or "--no-index" in command
                assert "--no-deps" in command


def test_the_image_takes_nothing_but_the_programs_folder() -> None:
    [copy] = STAGES[-1].of("COPY")
    assert copy.text == "--from=build /opt/statemaint /opt/statemaint"
    assert "pip uninstall" in STAGES[-1].of("RUN")[0].text


def test_loops_are_compiled_once_for_any_processor() -> None:
    at_build, at_run = environment(STAGES[0]), environment(STAGES[-1])
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CPU_NAME"):
        assert at_build[name] == at_run[name]
        assert name in environment(AIRFLOW[0])
    assert at_run["NUMBA_CPU_NAME"] == "generic"
    # The cache goes by the path of a source: beside the sources, those would be compiled.
    where = next(
        number for number, step in enumerate(STAGES[0].steps) if "statemaint.fold" in step.text
    )
    folders = [step.text for step in STAGES[0].steps[:where] if step.instruction == "WORKDIR"]
    assert folders[-1] != folders[0]


def test_the_pods_run_the_images_program_as_its_user() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["storage"]
    [user] = STAGES[-1].of("USER")
    assert user.text == f"{values['runAsUser']}:{values['runAsGroup']}"
    assert STAGES[-1].of("ENTRYPOINT")[0].text == '["statemaint"]'
    pod = one(render({"image": {"repository": "x"}, "exporter": {"enabled": True}}), "Deployment")
    [container] = pod["spec"]["template"]["spec"]["containers"]
    assert "command" not in container
    assert environment(STAGES[-1])["HOME"] in [
        each["mountPath"] for each in container["volumeMounts"]
    ]


def test_a_build_is_given_what_it_copies_and_little_else() -> None:
    rules = (ROOT / ".dockerignore").read_text().split()
    assert rules[0] == "*"
    given = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    copied = [
        word
        for step in STAGES[0].of("COPY")
        for word in step.words[:-1]
    ]  # fmt: skip
    assert sorted(set(copied)) == sorted(given)
    assert all((ROOT / name).exists() for name in copied)
    assert not any(fnmatchcase(".git", rule) for rule in given)


def test_the_linter_has_nothing_to_say() -> None:
    program = hadolint()
    if program is None:
        pytest.skip("there is no hadolint; `make setup` installs it")
    files = ["Dockerfile", "helm/airflow.Dockerfile"]
    done = subprocess.run([program, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_airflows_version_is_named_to_pip_again() -> None:
    [run] = AIRFLOW[0].of("RUN")
    assert '"apache-airflow==${AIRFLOW_VERSION}"' in run.text
    assert AIRFLOW[0].base.startswith("apache/airflow:3")
