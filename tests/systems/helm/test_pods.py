"""The pods of every scenario: what they may do, and what the program makes of their arguments."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from statemaint.cli.main import program
from statemaint.model.policy import Policy
from statemaint.queries.reading import QueriesReading
from statemaint.report.run import Report
from tests.support.planted import secret
from tests.support.queries import valid_queries
from tests.systems.helm import sparkoperator
from tests.systems.helm.support import SCENARIOS, Manifest, one, render, scenario, texts

pytestmark = pytest.mark.helm

PUSHGATEWAY = "http://statemaint-pushgateway.airflow:9091"
JOBS = "cronjobs-s3-values"
# The restricted standard of Pod Security, as far as fields of these pods go.
VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "secret", "projected", "csi"}
HOST = ("hostNetwork", "hostPID", "hostIPC")


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name and the spec of each pod that the objects lead to."""
    for manifest in manifests:
        spec = manifest.get("spec", {})
        if manifest["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if manifest["kind"] == "ScheduledSparkApplication":
            for pod in sparkoperator.pods(manifest):
                yield manifest["metadata"]["name"], pod["spec"]
        if manifest["kind"] in ("CronJob", "Deployment"):
            yield manifest["metadata"]["name"], spec["template"]["spec"]


def restricted(pod: dict[str, Any]) -> list[str]:
    """Returns what the restricted standard forbids in a pod."""
    of_pod = pod.get("securityContext", {})
    wrong = [name for name in HOST if pod.get(name)]
    wrong += [str(one) for one in pod.get("volumes", []) if not VOLUMES & one.keys()]
    if of_pod.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        wrong.append("seccompProfile")
    if not of_pod.get("runAsNonRoot") or not of_pod.get("runAsUser"):
        wrong.append("runAsNonRoot")
    for container in pod["containers"] + pod.get("initContainers", []):
        rights = container.get("securityContext", {})
        if rights.get("allowPrivilegeEscalation") is not False or rights.get("privileged"):
            wrong.append("allowPrivilegeEscalation")
        if rights.get("capabilities") != {"drop": ["ALL"]}:
            wrong.append("capabilities")
        if rights.get("runAsUser", 1) == 0 or rights.get("runAsNonRoot") is False:
            wrong.append("runAsUser")
    return wrong


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_pod_meets_the_restricted_standard_and_more(name: str) -> None:
    for _, pod in pods(render(scenario(name))):
        assert restricted(pod) == []
        [container] = pod["containers"]
        of_spark = container["name"].startswith("spark-kubernetes-")
        assert pod["automountServiceAccountToken"] is container["name"].endswith("-driver")
        assert pod["enableServiceLinks"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        if not of_spark:  # Spark makes them from cores and memory
            assert {"requests", "limits"} == container["resources"].keys()
            assert "cpu" not in container["resources"]["limits"]  # throttled, it would lose leases


def test_the_check_of_the_standard_notices() -> None:
    _, pod = next(pods(render(scenario(JOBS))))
    assert restricted(pod) == []
    del pod["securityContext"]["seccompProfile"]
    pod["hostPID"] = True
    pod["volumes"].append({"name": "x", "hostPath": {"path": "/"}})
    pod["containers"][0]["securityContext"] = {"capabilities": {"drop": []}}
    assert len(restricted(pod)) == 5


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_deployments_pod_is_probed(name: str) -> None:
    for manifest in render(scenario(name)):
        if manifest["kind"] == "Deployment":
            [container] = manifest["spec"]["template"]["spec"]["containers"]
            assert {"readinessProbe", "livenessProbe"} <= container.keys()


# -- what the program makes of it


def queries_of(manifests: list[Manifest], folder: Path) -> QueriesReading:
    """Returns the delivered queries file, as the program reads it."""
    file = folder / "queries.yaml"
    file.write_text(one(manifests, "ConfigMap", "-queries")["data"]["queries.yaml"])
    return valid_queries(file)


def parsed(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Policy]:
    """Returns the address and the policy that `maintain` is called with, in a job's container."""
    arguments = [one.replace("/etc/statemaint", str(folder)) for one in arguments]
    seen: list[tuple[str, Policy]] = []

    def maintain(storage: Any, policy: Policy, **_: object) -> Report:
        seen.append((storage, policy))
        raise click.Abort

    module = "statemaint.cli.maintain"
    monkeypatch.setattr(f"{module}.open_storage", lambda address, *_: address)
    monkeypatch.setattr(f"{module}.maintain", maintain)
    with pytest.raises(click.Abort):
        program.main(arguments, standalone_mode=False)
    return seen[0]


OF_QUERIES = ("cronjobs-s3-values", "cronjobs-volume-values", "crowd-values", "gke-values")


@pytest.mark.parametrize("name", OF_QUERIES)
def test_a_job_runs_the_query_by_its_own_policy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = render(scenario(name))
    file = queries_of(manifests, tmp_path)
    jobs = {
        each["metadata"]["annotations"]["statemaint/query"]: each["spec"]
        for each in manifests
        if each["kind"] == "CronJob" and not each["metadata"]["name"].endswith("-verify")
    }
    assert jobs.keys() == {name for name, query in file.queries.items() if query.enabled}
    for query, spec in jobs.items():
        wanted = file.queries[query]
        job = spec["jobTemplate"]["spec"]
        [container] = job["template"]["spec"]["containers"]
        assert container["args"][0] == "maintain"
        address, policy = parsed(container["args"], tmp_path, monkeypatch)
        assert (address, policy) == (wanted.checkpoint, file.policy_of(query))
        assert spec.get("suspend", False) == (wanted.schedule is None)
        assert job["activeDeadlineSeconds"] == wanted.timeout
        assert job["backoffLimit"] == wanted.retries


def test_a_job_of_each_number_has_the_name_in_the_file(tmp_path: Path) -> None:
    entry = {"checkpoint": "s3://lake/{day}", "for_each": {"day": [20261129, 7, "x"]}}
    manifests = render(scenario(JOBS) | {"queries": {"queries": {"of_{day}": entry}}})
    jobs = [each["metadata"] for each in manifests if each["kind"] == "CronJob"]
    named = {job["annotations"]["statemaint/query"] for job in jobs}
    assert named == queries_of(manifests, tmp_path).queries.keys()


@pytest.mark.parametrize(
    ("defaults", "policy"),
    [
        ({"rebase": True, "min_batches_to_retain": 7}, {"rebase": False}),
        ({"max_deletes_per_run": 5}, {"max_deletes_per_run": 0}),
        ({"verify": False, "max_deletes_per_run": 12_000_000}, {}),
        ({"grace": "2h", "max_seconds_per_run": "1.5h"}, {"preset": "spark", "trash_for": "7d"}),
        ({"preset": "lean", "orphan_age": "90s"}, {"min_deltas_for_snapshot": 3}),
    ],
    ids=str,
)
def test_a_querys_settings_go_before_the_defaults(
    defaults: dict[str, Any],
    policy: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = scenario(JOBS) | {
        "queries": {
            "defaults": defaults,
            "queries": {"a": {"checkpoint": "s3://lake/a", "policy": policy}},
        }
    }
    manifests = render(values)
    [(_, pod)] = ((name, pod) for name, pod in pods(manifests) if name.endswith("-a"))
    file = queries_of(manifests, tmp_path)
    _, parsed_policy = parsed(pod["containers"][0]["args"], tmp_path, monkeypatch)
    assert parsed_policy == file.policy_of("a")


def test_a_job_pushes_where_the_values_say_and_may_reach_it() -> None:
    manifests = render(scenario(JOBS) | {"pushgateway": {"enabled": True}})
    [(_, pod), *_] = ((name, pod) for name, pod in pods(manifests) if "hourly" in name)
    [container] = pod["containers"]
    assert "--publish" in container["args"]
    address = {"name": "STATEMAINT_PUSHGATEWAY", "value": PUSHGATEWAY}
    assert address in container["env"]
    egress = one(manifests, "NetworkPolicy", "-maintain")["spec"]["egress"]
    labels = one(manifests, "Service", "-pushgateway")["spec"]["selector"]
    assert {
        "to": [{"podSelector": {"matchLabels": labels}}],
        "ports": [{"port": "http"}],
    } in egress


def test_a_job_reads_the_delivered_queries_file() -> None:
    manifests = render(scenario(JOBS))
    for name, pod in pods(manifests):
        [container] = pod["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["queries"] == "/etc/statemaint", name
        [volume] = (each for each in pod["volumes"] if each["name"] == "queries")
        assert volume["configMap"]["name"] == "statemaint-queries"


def test_names_of_jobs_are_taken_by_kubernetes_and_never_shared() -> None:
    names = ["a_b", "a-b", "A-B", "a.b", "x" * 200, "x" * 199 + "y", "_", "-a-", "9", "r" * 30]
    values = scenario(JOBS) | {
        "queries": {"queries": {name: {"checkpoint": f"s3://lake/{name}"} for name in names}}
    }
    for release in ("statemaint", "r" * 53):
        jobs = [
            each["metadata"]["name"]
            for each in render(values, name=release)
            if each["kind"] == "CronJob"
        ]
        assert len(set(jobs)) == len(names)
        for name in jobs:
            assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name)
            assert len(name) <= 52


def test_a_quarter_is_spelled_as_kubernetes_takes_it() -> None:
    [spec] = (
        each["spec"]
        for each in render(scenario(JOBS))
        if each["kind"] == "CronJob" and "clicks-eu" in each["metadata"]["name"]
    )
    assert spec["schedule"] == "0 0 1 */3 *"
    assert spec["timeZone"] == "Europe/Berlin"
    assert spec["concurrencyPolicy"] == "Forbid"


def test_damage_and_a_wrong_configuration_are_not_tried_again() -> None:
    job = one(render(scenario(JOBS)), "CronJob", "by-hand-03f33fa8")["spec"]["jobTemplate"]["spec"]
    [rule] = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2, 3])
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # or there is no such policy


def test_the_exporter_reads_the_delivered_file_and_listens_where_it_is_probed() -> None:
    manifests = render(scenario("azure-values"))
    deployment = one(manifests, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"] == [
        "exporter", "--queries", "/etc/statemaint/queries.yaml", "--port", "9900",
    ]  # fmt: skip
    [volume] = (each for each in pod["volumes"] if each["name"] == "queries")
    assert one(manifests, "ConfigMap", volume["configMap"]["name"])["data"].keys() == {
        "queries.yaml"
    }
    [port] = container["ports"]
    assert (port["name"], port["containerPort"]) == ("metrics", 9900)
    [service_port] = one(manifests, "Service")["spec"]["ports"]
    [endpoint] = one(manifests, "ServiceMonitor")["spec"]["endpoints"]
    assert service_port["targetPort"] == endpoint["port"] == service_port["name"] == port["name"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= one(manifests, "Service")["spec"]["selector"].items()
    assert labels.items() >= deployment["spec"]["selector"]["matchLabels"].items()


def test_the_exporter_is_probed_for_health_and_for_its_first_reading() -> None:
    [container] = one(render(scenario("azure-values")), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    paths = {name: probe["httpGet"]["path"] for name, probe in container.items() if "Probe" in name}
    assert paths == {
        "startupProbe": "/-/healthy",
        "readinessProbe": "/-/ready",
        "livenessProbe": "/-/healthy",
    }


def test_each_shard_of_the_exporter_is_a_deployment_with_its_part() -> None:
    values = scenario("azure-values")
    values["exporter"]["shards"] = 2
    manifests = render(values)
    made = [each["spec"] for each in manifests if each["kind"] == "Deployment"]
    arguments = [spec["template"]["spec"]["containers"][0]["args"] for spec in made]
    assert [each[each.index("--shard") + 1] for each in arguments] == ["1/2", "2/2"]
    selected = [spec["selector"]["matchLabels"] for spec in made]
    assert selected[0] != selected[1]
    service = one(manifests, "Service")["spec"]["selector"]
    for spec in made:
        labels = spec["template"]["metadata"]["labels"]
        assert labels.items() >= spec["selector"]["matchLabels"].items()
        assert labels.items() >= service.items()


def test_the_exporter_never_writes_to_a_volume() -> None:
    manifests = render(scenario("cronjobs-volume-values"))
    mounts = {
        each["kind"]: pod["containers"][0]["volumeMounts"]
        for each in manifests
        for name, pod in pods([each])
    }
    [reading] = (each for each in mounts["Deployment"] if each["mountPath"] == "/data")
    [writing] = (each for each in mounts["CronJob"] if each["mountPath"] == "/data")
    assert reading == {**writing, "readOnly": True}


def test_a_changed_queries_file_reaches_the_exporter_as_it_runs() -> None:
    values = scenario("azure-values")
    before = one(render(values), "Deployment")
    [mount] = (
        each
        for each in before["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        if each["name"] == "queries"
    )
    assert "subPath" not in mount  # single files do not follow their ConfigMap
    values["queries"]["queries"]["hourly_revenue"]["schedule"] = "@daily"
    assert one(render(values), "Deployment") == before


# -- identities and secrets


@pytest.mark.parametrize(
    ("name", "account", "annotation"),
    [
        (JOBS, "-maintain", ("eks.amazonaws.com/role-arn",
                             "arn:aws:iam::123456789012:role/statemaint-delete")),
        (JOBS, "-exporter", ("eks.amazonaws.com/role-arn",
                             "arn:aws:iam::123456789012:role/statemaint-read")),
        ("azure-values", "-exporter", ("azure.workload.identity/client-id",
                                       "11111111-2222-3333-4444-555555555555")),
        ("gke-values", "-maintain", ("iam.gke.io/gcp-service-account",
                                     "statemaint@project.iam.gserviceaccount.com")),
    ],
)  # fmt: skip
def test_a_pod_has_the_identity_of_its_component(
    name: str, account: str, annotation: tuple[str, str]
) -> None:
    manifests = render(scenario(name))
    found = one(manifests, "ServiceAccount", account)
    assert found["metadata"]["annotations"].items() >= {annotation}
    assert found["automountServiceAccountToken"] is False
    kind = "Deployment" if account == "-exporter" else "CronJob"
    used = [
        pod["serviceAccountName"] for each in manifests if each["kind"] == kind
        for _, pod in pods([each])
    ]  # fmt: skip
    assert set(used) == {found["metadata"]["name"]}


def test_azures_webhook_finds_the_pod_by_its_label() -> None:
    template = one(render(scenario("azure-values")), "Deployment")["spec"]["template"]
    assert template["metadata"]["labels"]["azure.workload.identity/use"] == "true"


def test_an_account_that_is_there_is_used_and_not_made() -> None:
    manifests = render(scenario("cronjobs-volume-values"))
    assert not [each for each in manifests if each["kind"] == "ServiceAccount"]
    used = {each: pod["serviceAccountName"] for each, pod in pods(manifests)}
    assert used.pop("statemaint-exporter") == "default"
    assert set(used.values()) == {"spark"}


def test_keys_come_from_a_secret_by_its_name() -> None:
    values = scenario("cronjobs-volume-values")
    for name, pod in pods(render(values)):
        [container] = pod["containers"]
        keys = "lake-keys-to-read" if name.endswith("-exporter") else "lake-keys"
        assert container["envFrom"] == [{"secretRef": {"name": keys}}]
        assert container["env"] == [
            {"name": "STATEMAINT_ORIGIN", "value": "airflow.statemaint"},
            {"name": "STATEMAINT_NAMESPACE", "value": "airflow"},
            {"name": "STATEMAINT_S3_ENDPOINT", "value": "https://minio.storage:9000"},
        ]
    del values["exporter"]["existingSecret"]
    [container] = one(render(values), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "lake-keys"}}]


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_secret_is_in_any_manifest(name: str) -> None:
    # The chart makes no Secret, and no variable that could hold a secret has a value. The planted
    # ones are in the environment of this process, in which Helm renders.
    manifests = render(scenario(name))
    assert not [each for each in manifests if each["kind"] == "Secret"]
    for _, pod in pods(manifests):
        for variable in pod["containers"][0].get("env", []):
            secret_name = re.search("SECRET|PASSWORD|TOKEN|ACCESS_KEY", variable["name"])
            assert not (secret_name and "value" in variable)
    shown = "".join(texts(scenario(name)).values())
    assert secret("").split("-")[0] not in shown


# -- the network


def test_only_who_scrapes_and_pushes_gets_in_and_only_the_storage_is_reached() -> None:
    manifests = render(scenario("azure-values"))
    policy = one(manifests, "NetworkPolicy")["spec"]
    labels = one(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= policy["podSelector"]["matchLabels"].items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [
        {"from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
         "ports": [{"port": "metrics"}]}
    ]  # fmt: skip
    reached = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert reached == [53, 53, 443, 8443, 80]


def test_nobody_reaches_a_job_and_the_pushgateway_reaches_nobody() -> None:
    jobs = one(render(scenario(JOBS)), "NetworkPolicy", "-maintain")["spec"]
    assert jobs["ingress"] == []
    gateway = one(render(scenario("gke-values")), "NetworkPolicy", "-pushgateway")["spec"]
    assert gateway["egress"] == []
    assert {"podSelector": {}} in gateway["ingress"][0]["from"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_pod_has_a_policy_where_there_are_policies(name: str) -> None:
    values = scenario(name) | {"networkPolicy": {"enabled": True}}
    manifests = render(values)
    selected = [
        each["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for each in manifests
        if each["kind"] == "NetworkPolicy"
    ]
    components = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in manifests
        if each["kind"] in ("Deployment", "CronJob", "ScheduledSparkApplication")
    }
    assert sorted(selected) == sorted(components)
    assert json.dumps(manifests)


def test_the_readme_lists_every_scenario_that_it_names() -> None:
    readme = (SCENARIOS[JOBS].parent.parent / "README.md").read_text()
    assert set(re.findall(r"ci/([a-z0-9-]+)\.yaml", readme)) == set(SCENARIOS)
    assert yaml.safe_load(SCENARIOS[JOBS].read_text())
