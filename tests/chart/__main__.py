"""`python -m tests.chart`: checkov's policies on every object of every scenario of the chart.

checkov lives in an environment of its own below `.run`, as it has a hundred dependencies. Whatever
it finds must be one of the choices below.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import ROOT
from tests.systems.helm import sparkoperator
from tests.systems.helm.support import SCENARIOS, render, scenario

HERE = Path(__file__).parent
PLACE = ROOT / ".run" / "checkov"
# What the chart does on purpose.
CHOICES = {
    "CKV_K8S_11": "no limit of processor time: throttled, a run would lose its lease",
    "CKV_K8S_15": "the pull policy is a value",
    "CKV_K8S_35": "S3's client takes its keys from variables, where no identity is given",
    "CKV_K8S_40": "the user is the one that owns the files of a volume",
    "CKV_K8S_43": "the digest of the image is a value",
}
# And in the templates of Spark's pods.
OF_SPARK = {
    "CKV_K8S_8": "a driver, or an executor, ends by itself",
    "CKV_K8S_9": "the same",
    "CKV_K8S_10": "Spark sets the resources, by its cores and memory",
    "CKV_K8S_12": "the same",
    "CKV_K8S_13": "the same",
    "CKV_K8S_14": "Spark sets the image",
    "CKV_K8S_38": "the driver makes executors with its token",
}


def manifests(name: str) -> Iterator[dict[str, Any]]:
    """Yields the objects of a scenario, with the pods of Spark applications in their place."""
    for manifest in render(scenario(name)):
        if manifest["kind"] == "ScheduledSparkApplication":
            for pod in sparkoperator.pods(manifest):
                pod["metadata"]["namespace"] = manifest["metadata"]["namespace"]
                yield pod
        else:
            yield manifest


def program() -> Path:
    """Returns checkov, installed from its lock file if need be."""
    lock, stamp = HERE / "checkov.txt", PLACE / "checkov.txt"
    if not stamp.exists() or stamp.read_text() != lock.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", PLACE], check=True)
        install = ["install", "--quiet", "--require-hashes", "-r", str(lock)]
        subprocess.run([PLACE / "bin" / "python", "-m", "pip", *install], check=True)
        stamp.write_text(lock.read_text())
    return PLACE / "bin" / "checkov"


def findings(folder: Path) -> list[tuple[str, str]]:
    """Returns what checkov finds below a folder: the check with its name, and the object."""
    what = ["--directory", str(folder), "--framework", "kubernetes", "--skip-download"]
    done = subprocess.run(
        [program(), *what, "--compact", "--output", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    result = json.loads(done.stdout)
    if result["summary"]["parsing_errors"] or not result["summary"]["passed"]:
        sys.exit(f"checkov has read nothing, or not all: {result['summary']} {done.stderr}")
    found = []
    for one in result["results"]["failed_checks"]:
        chosen = CHOICES | OF_SPARK if one["resource"].startswith("Pod.") else CHOICES
        if one["check_id"] not in chosen:
            where = f"{Path(one['file_path']).stem}: {one['resource']}"
            found.append((f"{one['check_id']} {one['check_name']}", where))
    return found


def main() -> None:
    """Renders, checks, and ends with what is not one of the choices."""
    with tempfile.TemporaryDirectory(prefix="statemaint-chart-") as folder:
        for name in SCENARIOS:
            text = yaml.safe_dump_all(manifests(name))
            (Path(folder) / f"{name}.yaml").write_text(text)
        found = findings(Path(folder))
    for check, where in found:
        sys.stdout.write(f"{check}: {where}\n")
    if found:
        sys.exit(1)
    sys.stdout.write(f"{len(SCENARIOS)} scenarios: nothing but what is chosen\n")


if __name__ == "__main__":
    main()
