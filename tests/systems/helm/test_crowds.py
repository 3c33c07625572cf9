"""Crowds at the full hour, verification, and what the values add to pods and to the release."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import helm_python
import pytest
from croniter import croniter  # type: ignore[import-untyped]

from tests.support.planted import secret
from tests.systems.helm.support import Manifest, one, render, scenario

pytestmark = pytest.mark.helm

CROWD = "crowd-values"
# Just before midnight, the end of a Sunday and of a month.
START = datetime(2026, 5, 31, 23, 59, 30, tzinfo=UTC)


def jobs(values: dict[str, Any]) -> dict[str, Manifest]:
    return {
        each["metadata"]["name"]: each["spec"]
        for each in render(values)
        if each["kind"] == "CronJob"
    }


def scheduled(schedule: str, names: list[str], window: int = 15) -> list[str]:
    """Returns the schedules of the CronJobs of queries that all have one schedule."""
    queries = {name: {"checkpoint": f"s3://lake/{name}", "schedule": schedule} for name in names}
    values = {
        "airflow": {"enabled": False},
        "image": {"repository": "x"},
        "queries": {"queries": queries},
        "cronJobs": {"enabled": True, "spreadMinutes": window},
    }
    return [spec["schedule"] for spec in jobs(values).values()]


@pytest.mark.parametrize(
    "schedule",
    ["@hourly", "@daily", "@weekly", "@monthly", "7 * * * *", "30 4 * * 1", "*/30 * * * *"],
)
def test_a_crowd_is_spread_over_the_window_and_no_run_leaves_its_hour(schedule: str) -> None:
    names = [f"query-{number}" for number in range(150)]
    plain = croniter(schedule, START).get_next(datetime)
    begins = [croniter(one, START).get_next(datetime) for one in scheduled(schedule, names)]
    waits = Counter(
        (began - plain) % timedelta(minutes=30 if "*/30" in schedule else 60) for began in begins
    )
    assert set(waits) == {timedelta(minutes=minute) for minute in range(15)}
    assert max(waits.values()) <= 3 * 150 / 15
    if "*/" not in schedule:
        assert {(began.date(), began.hour) for began in begins} == {(plain.date(), plain.hour)}


def test_a_run_late_in_the_hour_stays_in_it() -> None:
    minutes = {int(one.split()[0]) for one in scheduled("55 * * * *", [f"q{n}" for n in range(60)])}
    assert minutes == {55, 56, 57, 58, 59}


@pytest.mark.parametrize("schedule", ["5,35 * * * *", "10-20 * * * *", "* * * * *", "*/7 * * * *"])
def test_lists_and_ranges_are_left_alone(schedule: str) -> None:
    assert set(scheduled(schedule, ["a", "b", "c", "d"])) == {schedule}


def test_without_a_window_schedules_are_as_they_are_written() -> None:
    assert set(scheduled("@hourly", ["a", "b"], window=0)) == {"@hourly"}


def test_a_query_keeps_its_minute_whatever_else_there_is() -> None:
    [alone] = scheduled("@hourly", ["query-7"])
    assert alone in scheduled("@hourly", ["query-6", "query-7", "query-8"])


def test_a_quota_counts_the_pods_of_the_jobs_alone() -> None:
    manifests = render(scenario(CROWD))
    quota = one(manifests, "ResourceQuota")["spec"]
    assert quota["hard"] == {"pods": "20"}
    [scope] = quota["scopeSelector"]["matchExpressions"]
    assert (scope["scopeName"], scope["operator"]) == ("PriorityClass", "In")
    classes = {
        each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["priorityClassName"]
        for each in manifests
        if each["kind"] == "CronJob"
    }
    assert classes == set(scope["values"]) == {one(manifests, "PriorityClass")["metadata"]["name"]}
    exporter = one(manifests, "Deployment", "-exporter")["spec"]["template"]["spec"]
    assert exporter["priorityClassName"] not in classes


def test_each_query_is_verified_by_a_job_of_its_own() -> None:
    found = jobs(scenario(CROWD))
    verified = {name: spec for name, spec in found.items() if name.endswith("-verify")}
    assert len(verified) * 2 == len(found) == 2 * 16
    for spec in verified.values():
        pod = spec["jobTemplate"]["spec"]["template"]
        [container] = pod["spec"]["containers"]
        assert container["args"][:1] == ["verify"]
        assert container["args"][3:6] == ["--publish", "--deep", "--"]
        minute, *rest = spec["schedule"].split()
        assert rest == ["0", "*", "*", "0"]
        assert 0 <= int(minute) < 30
        assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "verify"
        assert pod["spec"]["serviceAccountName"] == "statemaint-maintain"  # it leaves a record


def test_without_a_word_nothing_is_verified() -> None:
    assert not [name for name in jobs(scenario("cronjobs-s3-values")) if name.endswith("-verify")]


def pods(manifests: list[Manifest]) -> list[tuple[str, dict[str, Any]]]:
    templates = []
    for each in manifests:
        if each["kind"] == "CronJob":
            templates.append((each["kind"], each["spec"]["jobTemplate"]["spec"]["template"]))
        elif each["kind"] == "Deployment":
            templates.append((each["metadata"]["name"], each["spec"]["template"]))
    return templates


def test_labels_and_classes_reach_every_pod_and_selectors_stay() -> None:
    manifests = render(scenario(CROWD))
    for _, template in pods(manifests):
        assert template["metadata"]["labels"]["cost-centre"] == "streaming"
        assert template["spec"]["priorityClassName"]
    for each in manifests:
        if each["kind"] == "Deployment":
            assert "cost-centre" not in each["spec"]["selector"]["matchLabels"]


def test_variables_and_their_sources_reach_the_program() -> None:
    for kind, template in pods(render(scenario(CROWD))):
        [container] = template["spec"]["containers"]
        names = [each["name"] for each in container.get("env", ())]
        if kind == "CronJob":
            assert names[-2:] == ["AWS_REGION", "AWS_ACCESS_KEY_ID"]
            assert container["envFrom"] == scenario(CROWD)["cronJobs"]["envFrom"]
            assert template["spec"]["topologySpreadConstraints"][0]["maxSkew"] == 1
        elif kind == "statemaint-exporter":
            assert "AWS_REGION" in names
            assert container["envFrom"] == [{"secretRef": {"name": "lake-keys-to-read"}}]


@pytest.mark.parametrize(
    "extra",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-x"}},
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-x\n",
    ],
    ids=["an object", "a text"],
)
def test_extra_objects_are_templates(extra: object) -> None:
    found = one(render({"extraObjects": [extra, extra]})[:1] + render({"extraObjects": [extra]}),
                "ConfigMap", "statemaint-x")  # fmt: skip
    assert found["metadata"]["name"] == "statemaint-x"


JOBS: dict[str, Any] = {
    "airflow": {"enabled": False},
    "image": {"repository": "registry.example.com/statemaint"},
}
KEY = secret("extra")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {**JOBS, "cronJobs": {"enabled": True, "maxPods": 5}},
            "cronJobs.maxPods: a ResourceQuota counts pods by their priority class; make a",
        ),
        (
            {"cronJobs": {"verify": {"enabled": True}}},
            (
                "cronJobs.verify.enabled: has no effect without cronJobs.enabled; enable it, or "
                "let Airflow's DAG statemaint_verify or spark.verify do it"
            ),
        ),
        (
            {**JOBS, "cronJobs": {"enabled": True, "verify": {"enabled": True, "schedule": "x"}}},
            'cronJobs.verify.schedule: "x" is not a valid schedule',
        ),
        (
            {"exporter": {"podLabels": {"app.kubernetes.io/name": "x"}}},
            "exporter.podLabels: app.kubernetes.io/name selects the pods of this chart",
        ),
        (
            {"spark": {"extraEnv": [{"name": "MY_PASSWORD", "value": KEY}]}},
            (
                "spark.extraEnv.MY_PASSWORD: a secret would stand in the manifests; put it into a "
                "Secret, and give valueFrom.secretKeyRef"
            ),
        ),
        ({"cronJobs": {"extraEnv": [{"value": "x"}]}}, "missing property 'name'"),
        ({"cronJobs": {"spreadMinutes": 60}}, "at '/cronJobs/spreadMinutes'"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_has_no_effect_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(helm_python.HelmError) as error:
        render(values)
    assert sentence in str(error.value)
    assert KEY not in str(error.value)
