"""The overlay for the official Apache Airflow chart, which cannot be rendered here.

What stands in for it: the keys that its values.yaml and its parameters reference document, what
Kubernetes takes in their places, what our own chart delivers, and how Airflow searches its folders.
"""

import os
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.systems.helm.support import OVERLAY, one, render

pytestmark = pytest.mark.helm

# Keys for all of Airflow's containers, as values.yaml of the official chart documents them
# ("Volumes for all airflow containers"; of extraEnvFrom it says that a string is expected). Read
# there for Airflow 3.1.3, and in the templates of scheduler, dag processor, API server, Celery
# worker and the pods of the KubernetesExecutor. Charts 1.20 and 1.21 moved keys below `workers`.
DOCUMENTED: dict[str, type] = {
    "env": list,
    "volumes": list,
    "volumeMounts": list,
    "extraEnv": str,
    "extraEnvFrom": str,
}
# The default of `airflowHome`, which has `dags` and `plugins` below it.
AIRFLOW_HOME = PurePosixPath("/opt/airflow")

VALUES: dict[str, Any] = yaml.safe_load(OVERLAY.read_text())
MOUNTS: dict[str, dict[str, Any]] = {each["name"]: each for each in VALUES["volumeMounts"]}
ENV_FROM: list[dict[str, Any]] = yaml.safe_load(VALUES["extraEnvFrom"])


def delivered(name: str) -> dict[str, str]:
    data: dict[str, str] = one(render(), "ConfigMap", name)["data"]
    return data


def test_the_keys_are_documented_ones() -> None:
    for key, value in VALUES.items():
        assert isinstance(value, DOCUMENTED[key]), key


def test_kubernetes_takes_what_airflows_pods_will_get() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "scheduler"},
        "spec": {
            "volumes": VALUES["volumes"],
            "containers": [
                {
                    "name": "scheduler",
                    "image": "airflow",
                    "volumeMounts": VALUES["volumeMounts"],
                    "envFrom": ENV_FROM,
                }
            ],
        },
    }
    for version in ("1.29", kubernetes_validate.latest_version()):
        kubernetes_validate.validate(pod, version, strict=True)


def test_every_volume_is_a_config_map_of_the_chart_and_is_mounted_once() -> None:
    assert [each["name"] for each in VALUES["volumes"]] == list(MOUNTS)
    for volume in VALUES["volumes"]:
        assert delivered(volume["configMap"]["name"])
    assert all(mount["readOnly"] for mount in MOUNTS.values())


def test_single_files_are_in_their_config_map_and_go_where_airflow_looks() -> None:
    for name, folder in (("dags", "dags"), ("plugins", "plugins")):
        mount = MOUNTS[f"statemaint-{name}"]
        assert mount["subPath"] in delivered(f"statemaint-{name}")
        assert PurePosixPath(mount["mountPath"]) == AIRFLOW_HOME / folder / mount["subPath"]


def test_the_environment_names_the_queries_file_where_it_is_mounted() -> None:
    [source] = ENV_FROM
    path = PurePosixPath(delivered(source["configMapRef"]["name"])["STATEMAINT_QUERIES"])
    mount = MOUNTS["statemaint-queries"]
    # Not a single file: those do not follow their ConfigMap.
    assert "subPath" not in mount
    assert path.parent == PurePosixPath(mount["mountPath"])
    assert path.name in delivered("statemaint-queries")


def found_by_airflow(dags: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys; from airflow.utils.file import list_py_file_paths;"
        "print(*list_py_file_paths(sys.argv[1], safe_mode=False))"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(dags)],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path / "airflow")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.airflow
@pytest.mark.slow
def test_airflow_finds_a_single_file_and_stumbles_over_a_mounted_folder(tmp_path: Path) -> None:
    # The folder is laid out as the kubelet does it, for atomic changes.
    dags = tmp_path / "dags"
    data = dags / "statemaint" / "..2026_11_20_12_00_00.1"
    data.mkdir(parents=True)
    (data / "statemaint_dags.py").write_text("")
    (dags / "statemaint" / "..data").symlink_to(data.name)
    (dags / "statemaint" / "statemaint_dags.py").symlink_to("..data/statemaint_dags.py")
    assert "Detected recursive loop" in found_by_airflow(dags, tmp_path).stderr

    single = tmp_path / "single"
    single.mkdir()
    (single / MOUNTS["statemaint-dags"]["subPath"]).write_text("")
    assert found_by_airflow(single, tmp_path).stdout.split()[-1].endswith("/statemaint_dags.py")
