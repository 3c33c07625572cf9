"""Renders the chart with Helm's own engine and hands out the objects."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import helm_python
import yaml

from tests.support.paths import ROOT

CHART = ROOT / "helm" / "statemaint"
OVERLAY = ROOT / "helm" / "airflow-values.yaml"
SCENARIOS = {path.stem: path for path in sorted((CHART / "ci").glob("*-values.yaml"))}

Manifest = dict[str, Any]


def scenario(name: str) -> dict[str, Any]:
    """Returns the values of one file in `ci/`."""
    values: dict[str, Any] = yaml.safe_load(SCENARIOS[name].read_text())
    return values


def render(values: Mapping[str, Any] | None = None, *, name: str = "statemaint") -> list[Manifest]:
    """Returns all objects of a release `name` in the namespace `airflow`."""
    documents = (
        document
        for path, text in texts(values, name=name).items()
        if not path.endswith("NOTES.txt")
        for document in yaml.load_all(text, Loader=yaml.CSafeLoader)
    )
    return [document for document in documents if document is not None]


def texts(values: Mapping[str, Any] | None = None, *, name: str = "statemaint") -> dict[str, str]:
    """Returns what each template makes, as text."""
    return dict(_rendered(json.dumps(dict(values or {})), name))


def elsewhere(values: Mapping[str, Any], *, name: str, namespace: str) -> list[Manifest]:
    """Returns all objects of a release in another namespace."""
    made = _chart().render(dict(values), name=name, namespace=namespace)
    text = "\n---\n".join(made[path] for path in made if not path.endswith("NOTES.txt"))
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def one(manifests: list[Manifest], kind: str, name: str = "") -> Manifest:
    """Returns the only object of a kind, or the one of that name."""
    [found] = [
        each
        for each in manifests
        if each["kind"] == kind and each["metadata"]["name"].endswith(name)
    ]
    return found


@cache
def _rendered(values: str, name: str) -> Mapping[str, str]:
    manifests: dict[str, str] = _chart().render(json.loads(values), name=name, namespace="airflow")
    return manifests


@cache
def _chart() -> helm_python.Chart:
    return helm_python.Chart.load(CHART)
