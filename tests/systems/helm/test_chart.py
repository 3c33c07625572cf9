import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

import statemaint
from tests.support.queries import valid_queries
from tests.systems.helm.support import (
    CHART,
    SCENARIOS,
    Manifest,
    elsewhere,
    one,
    render,
    scenario,
    texts,
)
from tools.demo.prometheus import MissingPart, find

pytestmark = pytest.mark.helm

# Custom kinds have no schema in kubernetes-validate; tests of their own look at them.
CUSTOM = {"PrometheusRule", "ServiceMonitor", "PodMonitor", "ScheduledSparkApplication"}
# Kinds without a namespace, which `extraObjects` may have.
EXTRA = {"PriorityClass"}
VERSIONS = ["1.29", "1.30", "1.31", "1.32", "1.33", "1.34", kubernetes_validate.latest_version()]
EVERYTHING = "pushgateway-values"


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    try:
        program = find("promtool")
    except MissingPart as missing:
        pytest.skip(str(missing))
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def container(manifests: list[Manifest]) -> dict[str, Any]:
    [found] = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_of_every_scenario_is_what_kubernetes_takes(name: str, version: str) -> None:
    manifests = render(scenario(name))
    assert manifests
    for manifest in manifests:
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_release_and_its_namespace_may_be_called_by_a_number(name: str) -> None:
    manifests = elsewhere(scenario(name), name="456", namespace="123")
    for manifest in manifests:
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)
    assert not re.search(r'(": |\[)(123|456)[],}]', json.dumps(manifests))


def test_a_misspelt_field_would_be_noticed() -> None:
    deployment = one(render(scenario(EVERYTHING)), "Deployment")
    deployment["spec"]["template"]["spec"]["automountServiceAccountTokens"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.29", strict=True)


def test_the_scenarios_make_every_kind_there_is() -> None:
    kinds = {each["kind"] for name in SCENARIOS for each in render(scenario(name))}
    ours = {"ConfigMap", "CronJob", "Deployment", "NetworkPolicy", "ResourceQuota", "Role"}
    ours |= {"RoleBinding", "Service", "ServiceAccount"}
    assert kinds == ours | CUSTOM | EXTRA
    assert len(SCENARIOS) == 11


@pytest.mark.parametrize("name", SCENARIOS)
def test_objects_are_labelled_and_stay_in_the_namespace(name: str) -> None:
    for manifest in render(scenario(name)):
        if manifest["kind"] in EXTRA:
            continue
        assert manifest["metadata"]["namespace"] == "airflow"
        assert (
            manifest["metadata"]["labels"].items()
            >= {
                "app.kubernetes.io/name": "statemaint",
                "app.kubernetes.io/instance": "statemaint",
                "app.kubernetes.io/part-of": "statemaint",
                "app.kubernetes.io/managed-by": "Helm",
                "app.kubernetes.io/version": statemaint.__version__,
            }.items()
        )


@pytest.mark.parametrize("name", SCENARIOS)
def test_only_sparks_driver_gets_a_token_of_the_service_account(name: str) -> None:
    for path, text in texts(scenario(name)).items():
        drivers = text.count("kind: ScheduledSparkApplication")
        assert len(re.findall(r"automountServiceAccountToken:\s*true", text)) == drivers, path
    for manifest in render(scenario(name)):
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            assert pod["automountServiceAccountToken"] is False


def test_lint_has_nothing_to_say() -> None:
    report = helm_python.lint(CHART, scenario(EVERYTHING), strict=True)
    assert report["errors"] == []
    assert {each["error"] for each in report["messages"]} <= {"icon is recommended"}


def test_the_chart_has_the_version_of_the_package() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == statemaint.__version__


@pytest.mark.parametrize(
    "values",
    [
        {"pushgatway": {"enabled": True}},
        {"pushgateway": {"enable": True}},
        {"pushgateway": {"image": {"repo": "x"}}},
        {"pushgateway": {"serviceMonitor": {"enable": True}}},
        {"alerts": {"staleAfter": 60}},
        {"alerts": {"staleAfterSeconds": "6h"}},
        {"alerts": {"prometheusRules": {"enabled": True}}},
        {"alerts": {"prometheusRule": {"enable": True}}},
        {"dashboard": {"label": {}}},
        {"queries": {"queries": ["hourly_revenue"]}},
        {"queries": {"queries": {"a": {"checkpoint": "/a", "cron": "@hourly"}}}},
        {"queries": {"queries": {"a": {"checkpoint": "/a", "policy": {"grce": "1h"}}}}},
        {"queries": {"default": {"grace": "1h"}, "queries": {}}},
        {"exporter": {"enable": True}},
        {"exporter": {"serviceAccount": {"role": "arn:aws:iam::123456789012:role/x"}}},
        {"cronJobs": {"schedule": "@hourly"}},
        {"storage": {"secret": "x"}},
        {"image": {"repo": "x"}},
        {"networkPolicy": {"ingress": []}},
        {"airflow": {"enabled": "yes"}},
    ],
    ids=str,
)
def test_a_misspelt_value_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(helm_python.HelmValuesError):
        render(values)


@pytest.mark.parametrize(
    "pushgateway",
    [{"enabled": True, "url": "http://x:9091"}, {"serviceMonitor": {"enabled": True}}],
    ids=["two of them", "nothing to monitor"],
)
def test_values_that_contradict_each_other_are_refused(pushgateway: dict[str, Any]) -> None:
    with pytest.raises(helm_python.HelmValuesError):
        render({"pushgateway": pushgateway})


def test_the_schema_knows_the_values_and_nothing_else() -> None:
    def keys(schema: dict[str, Any]) -> dict[str, Any] | None:
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rpartition("/")[2]]
        if schema.get("additionalProperties") is not False:
            return None
        return {name: keys(each) for name, each in schema["properties"].items() if name != "global"}

    def same(schema: dict[str, Any] | None, values: object) -> None:
        if schema is not None:
            assert isinstance(values, dict)
            assert schema.keys() >= values.keys()
            assert schema.keys() - values.keys() <= optional
            for name in values:
                same(schema[name], values[name])

    schema = json.loads((CHART / "values.schema.json").read_text())
    schema["properties"]["queries"] = {}  # test_sync.py holds it
    definitions = schema["definitions"]
    optional = {"coreLimit", "coreRequest", "javaOptions"}
    same(keys(schema), yaml.safe_load((CHART / "values.yaml").read_text()))


def test_the_queries_file_says_what_the_values_say() -> None:
    values = scenario(EVERYTHING)["queries"]
    # Helm turns large whole numbers into 5e+06 in some places.
    values["defaults"]["max_deletes_per_run"] = 5_000_000
    manifest = one(render({"queries": values}), "ConfigMap", "-queries")
    assert yaml.safe_load(manifest["data"]["queries.yaml"]) == values
    assert "5000000" in manifest["data"]["queries.yaml"]


@pytest.mark.parametrize("name", [*SCENARIOS, None])
def test_the_queries_file_is_one_that_statemaint_reads(name: str | None, tmp_path: Path) -> None:
    manifest = one(render(scenario(name) if name else {}), "ConfigMap", "-queries")
    file = tmp_path / "queries.yaml"
    file.write_text(manifest["data"]["queries.yaml"])
    entries = yaml.safe_load(file.read_text())["queries"]
    read = valid_queries(file).queries
    assert {one for one in entries if "{" not in one} <= read.keys()
    assert bool(read) == bool(entries)
    done = subprocess.run(
        [sys.executable, "-m", "statemaint", "queries", file, "validate"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("component", "file"),
    [
        ("-dags", "dags/statemaint_dags.py"),
        ("-plugins", "plugins/statemaint_plugin.py"),
    ],
)
def test_files_are_delivered_byte_for_byte(component: str, file: str) -> None:
    path = CHART / "files" / file
    [delivered] = one(render(), "ConfigMap", component)["data"].values()
    assert delivered == path.read_text()


def test_the_dashboards_are_delivered_byte_for_byte() -> None:
    files = {one.name: one.read_text() for one in (CHART / "files" / "dashboards").iterdir()}
    assert one(render(), "ConfigMap", "-dashboard")["data"] == files
    assert len(files) == 3


def test_the_addresses_of_the_values_reach_the_dashboards() -> None:
    manifests = render(scenario(EVERYTHING))
    for text in one(manifests, "ConfigMap", "-dashboard")["data"].values():
        boxes = {
            box["name"]: (box["query"], box["current"]["value"])
            for box in json.loads(text)["templating"]["list"]
            if box["type"] == "textbox"
        }
        airflow = "https://airflow.example.com"
        runbook = "https://git.example.com/statemaint/blob/main/docs/runbook.md"
        assert boxes == {"airflow": (airflow, airflow), "runbook": (runbook, runbook)}


@pytest.mark.prometheus
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_delivered_rules_are_valid(name: str, tmp_path: Path) -> None:
    manifests = render(scenario(name))
    rules = [each["spec"] for each in manifests if each["kind"] == "PrometheusRule"]
    rules += [
        yaml.safe_load(text)
        for each in manifests
        if each["metadata"]["name"].endswith("-alerts") and each["kind"] == "ConfigMap"
        for text in each["data"].values()
    ]
    enabled = scenario(name).get("alerts", {}).get("enabled", True)
    assert len(rules) == (1 if enabled else 0)
    for number, each in enumerate(rules):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(each))
        done = promtool("check", "rules", file)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_prometheus_rule_has_the_labels_it_is_selected_by() -> None:
    rule = one(render(scenario(EVERYTHING)), "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    assert set(rule["spec"]) == {"groups"}


def test_the_dashboard_has_the_labels_and_the_folder_it_is_found_by() -> None:
    plain = one(render(), "ConfigMap", "-dashboard")["metadata"]
    assert plain["labels"]["grafana_dashboard"] == "1"
    assert "annotations" not in plain
    chosen = one(render(scenario(EVERYTHING)), "ConfigMap", "-dashboard")["metadata"]
    assert chosen["labels"]["team"] == "streaming"
    assert chosen["annotations"] == {"grafana_folder": "Streaming"}


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("default-values", None),
        ("existing-pushgateway-values", "http://prometheus-pushgateway.monitoring:9091"),
        ("pushgateway-values", "http://statemaint-pushgateway.airflow:8080"),
    ],
)
def test_tasks_are_told_where_to_push(name: str, address: str | None) -> None:
    env = one(render(scenario(name)), "ConfigMap", "-env")["data"]
    assert env.get("STATEMAINT_PUSHGATEWAY") == address


def test_the_address_is_that_of_the_service() -> None:
    manifests = render(scenario(EVERYTHING))
    service = one(manifests, "Service")
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    [port] = service["spec"]["ports"]
    env = one(manifests, "ConfigMap", "-env")["data"]
    assert env["STATEMAINT_PUSHGATEWAY"] == f"http://{name}.{namespace}:{port['port']}"


def test_service_and_monitor_find_the_pod() -> None:
    manifests = render(scenario(EVERYTHING))
    service, monitor = one(manifests, "Service"), one(manifests, "ServiceMonitor")
    pod = one(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert pod.items() >= service["spec"]["selector"].items()
    labels = service["metadata"]["labels"]
    assert labels.items() >= monitor["spec"]["selector"]["matchLabels"].items()
    [endpoint], [port] = monitor["spec"]["endpoints"], service["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    assert endpoint["honorLabels"] is True
    [open_port] = container(manifests)["ports"]
    assert port["targetPort"] == open_port["name"]
    assert f"--web.listen-address=:{open_port['containerPort']}" in container(manifests)["args"]


def test_a_new_version_of_the_chart_does_not_replace_the_pushgateway() -> None:
    # A new pod would start without what was pushed.
    deployment = one(render({"pushgateway": {"enabled": True}}), "Deployment")
    assert deployment["spec"]["template"]["metadata"] == {
        "labels": deployment["spec"]["selector"]["matchLabels"]
    }
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("values", [{"pushgateway": {"enabled": True}}, scenario(EVERYTHING)])
def test_the_pushgateway_runs_with_the_least_rights(values: dict[str, Any]) -> None:
    manifests = render(values)
    pod = one(manifests, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    rights = container(manifests)["securityContext"]
    assert rights == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"readinessProbe", "livenessProbe"} <= container(manifests).keys()
    assert set(container(manifests)["resources"]) == {"requests", "limits"}


def test_the_pushgateway_writes_only_into_its_volume() -> None:
    # The root file system is read-only.
    manifests = render({"pushgateway": {"enabled": True}})
    [mount] = container(manifests)["volumeMounts"]
    [file] = [
        each for each in container(manifests)["args"] if each.startswith("--persistence.file=")
    ]
    assert file.removeprefix("--persistence.file=").startswith(mount["mountPath"] + "/")


@pytest.mark.prometheus
def test_the_pushgateway_knows_its_arguments() -> None:
    try:
        program = find("prometheus-pushgateway")
    except MissingPart as missing:
        pytest.skip(str(missing))
    flags = {each.split("=")[0] for each in container(render(scenario(EVERYTHING)))["args"]}
    help_text = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    assert all(flag in help_text.stdout + help_text.stderr for flag in flags)


@pytest.mark.parametrize(
    ("release", "values", "expected"),
    [
        ("statemaint", {}, "statemaint-queries"),
        ("prod", {}, "prod-statemaint-queries"),
        ("prod", {"nameOverride": "state"}, "prod-state-queries"),
        ("prod", {"fullnameOverride": "mine"}, "mine-queries"),
    ],
)
def test_names_follow_the_release(release: str, values: dict[str, Any], expected: str) -> None:
    assert (
        one(render(values, name=release), "ConfigMap", "-queries")["metadata"]["name"] == expected
    )


def test_the_longest_release_name_makes_names_that_kubernetes_takes() -> None:
    for manifest in render({"pushgateway": {"enabled": True}}, name="r" * 53):
        assert len(manifest["metadata"]["name"]) <= 63
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, "1.29", strict=True)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"pushgateway": {"enabled": True}}, "pushed to http://statemaint-pushgateway.airflow:9091."),
        ({"queries": {"pushgateway": "http://gw:9091", "queries": {}}}, "pushed to http://gw:9091."),
        ({"queries": {"textfile": "/metrics", "queries": {}}}, "Metrics are written to /metrics."),
        ({}, "No metrics: set exporter.enabled"),
    ],
)  # fmt: skip
def test_the_notes_tell_where_metrics_are_published(values: dict[str, Any], line: str) -> None:
    assert line in texts(values)["statemaint/templates/NOTES.txt"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_notes_tell_what_to_do_next(name: str) -> None:
    values = scenario(name)
    notes = texts(values)["statemaint/templates/NOTES.txt"]
    assert "hourly_revenue" in notes
    airflow = values.get("airflow", {}).get("enabled", True)
    jobs = [each for each in render(values) if each["kind"] == "CronJob"]
    assert ("get scheduledsparkapplications" in notes) == (name == "spark-operator-values")
    assert ("Nothing is verified: set cronJobs.verify" in notes) == (
        values.get("cronJobs", {}).get("enabled", False) and name != "crowd-values"
    )
    assert ("--values airflow-values.yaml" in notes) == airflow
    assert any(f"--from=cronjob/{each['metadata']['name']} " in notes for each in jobs) == bool(
        jobs
    )
    if values.get("exporter", {}).get("enabled"):
        port = values["exporter"].get("port", 9808)
        assert f"curl http://localhost:{port}/metrics" in notes
    if name == "existing-pushgateway-values":
        assert "state-maintenance-*" in notes


def test_the_readme_shows_values_that_work() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        assert render(yaml.safe_load(block))
