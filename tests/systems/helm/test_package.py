"""What `make dist` makes for platform teams: the chart's package, bills of materials, the notes."""

import importlib.util
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from statemaint import __version__
from tests.support.paths import ROOT

pytestmark = pytest.mark.helm


@pytest.fixture(scope="module")
def dist() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dist", ROOT / ".ci" / "dist.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_package_is_one_that_a_registry_takes_and_has_no_scenarios(
    dist: ModuleType, tmp_path: Path
) -> None:
    package = dist.packaged_chart(tmp_path)
    assert package.name == f"statemaint-{__version__}.tgz"
    with tarfile.open(package) as archive:
        names = archive.getnames()
    assert "statemaint/Chart.yaml" in names
    assert "statemaint/templates/spark.yaml" in names
    assert not [name for name in names if name.startswith("statemaint/ci/")]


def test_the_notes_have_the_commands_to_build_push_and_install(
    dist: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "statemaint.tgz").write_bytes(b"x")
    notes = dist.release_notes([tmp_path / "statemaint.tgz"])
    [commands] = re.findall(r"```sh\n(.*?)```", notes, re.DOTALL)
    verbs = [line.split()[:2] for line in commands.splitlines()]
    assert verbs == [["docker", "build"], ["docker", "push"], ["helm", "install"]]
    assert f"helm push statemaint-{__version__}.tgz oci://" in commands
    assert dist.sha256(tmp_path / "statemaint.tgz") in notes


@pytest.mark.parametrize("lock", ["requirements-image.lock", "requirements-spark.lock"])
def test_a_bill_of_materials_has_each_package_of_its_lock_with_its_hashes(lock: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "sbom.py", lock], capture_output=True, check=True
    )
    bill = json.loads(done.stdout)
    found = {(each["name"], each["version"]) for each in bill["components"]}
    wanted = re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", (ROOT / lock).read_text(), re.MULTILINE)
    assert found == set(wanted)
    for each in bill["components"]:
        assert each["externalReferences"][0]["hashes"]
