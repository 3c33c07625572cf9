"""The jobs on Spark: both modes, against the operator's schema and the program's own flags."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import helm_python
import jsonschema
import kubernetes_validate
import pytest
import yaml

from statemaint.spark.program import program
from tests.support.paths import ROOT
from tests.systems.helm import sparkoperator
from tests.systems.helm.support import CHART, Manifest, one, render, scenario, texts

pytestmark = pytest.mark.helm

CRON, OPERATOR = "spark-cronjobs-values", "spark-operator-values"
SPARK: dict[str, Any] = {
    "airflow": {"enabled": False},
    "spark": {"enabled": True, "image": {"repository": "registry.example.com/statemaint-spark"}},
    "queries": {"queries": {"a": {"checkpoint": "s3://lake/a"}}},
}


def with_spark(**more: object) -> dict[str, Any]:
    return {**SPARK, "spark": {**SPARK["spark"], **more}}


def applications(values: dict[str, Any]) -> list[Manifest]:
    return [each for each in render(values) if each["kind"] == "ScheduledSparkApplication"]


def containers(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the container of each CronJob."""
    found = {}
    for each in render(values):
        if each["kind"] == "CronJob":
            [container] = each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
            found[each["metadata"]["name"]] = container
    return found


def variables(container: dict[str, Any]) -> dict[str, str | None]:
    return {each["name"]: each.get("value") for each in container["env"]}


def arguments(values: dict[str, Any]) -> dict[str, list[str]]:
    """Returns the arguments of each job, of either mode."""
    of_jobs = {name: container["args"] for name, container in containers(values).items()}
    of_operator = {
        each["metadata"]["name"]: each["spec"]["template"]["arguments"]
        for each in applications(values)
    }
    return of_jobs | of_operator


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_the_operator_takes_its_applications_and_kubernetes_their_pods(version: str) -> None:
    made = applications(scenario(OPERATOR))
    assert len(made) == 8
    for manifest in made:
        sparkoperator.check(manifest)
        for pod in sparkoperator.pods(manifest):
            kubernetes_validate.validate(pod, version, strict=True)


@pytest.mark.parametrize("path", [("spec",), ("spec", "template"), ("spec", "template", "driver")])
def test_a_misspelt_field_of_an_application_would_be_noticed(path: tuple[str, ...]) -> None:
    [manifest, *_] = applications(scenario(OPERATOR))
    place = manifest
    for name in path:
        place = place[name]
    place["driverPod"] = 1
    with pytest.raises(jsonschema.ValidationError):
        sparkoperator.check(manifest)


@pytest.mark.parametrize("name", [CRON, OPERATOR])
def test_the_program_takes_the_arguments_of_every_job(name: str, tmp_path: Path) -> None:
    (tmp_path / "queries.yaml").write_text("queries: {}\n")
    verbs = set()
    for given in arguments(scenario(name)).values():
        verb, *rest = (each.replace("/etc/statemaint", str(tmp_path)) for each in given)
        command = program.commands[verb]
        context = command.make_context(verb, rest)  # ends with an error for an unknown flag
        assert context.params["file"] == str(tmp_path / "queries.yaml")
        verbs.add(verb)
    assert verbs == (
        {"maintain", "verify", "savepoint"} if name == CRON else {"maintain", "verify"}
    )


def test_an_unknown_flag_would_be_noticed() -> None:
    values = with_spark(maintain={"extraArgs": ["--graze", "1h"]})
    with pytest.raises(click.NoSuchOption):
        program.commands["maintain"].make_context(
            "maintain", arguments(values)["statemaint-spark-maintain"][1:]
        )


def test_shards_share_the_queries_and_the_names_are_short_enough_for_the_operator() -> None:
    values = scenario(OPERATOR)
    for release in ("statemaint", "r" * 53):
        names = [
            each["metadata"]["name"]
            for each in render(values, name=release)
            if each["kind"] == "ScheduledSparkApplication"
        ]
        assert len(set(names)) == 8
        # The operator adds a hyphen and 19 digits, and makes a label of 63 and a Service of it.
        assert max(map(len, names)) + 20 + len("-ui-svc") <= 63
    shards = [
        given[given.index("--shard") + 1]
        for name, given in arguments(values).items()
        if "maintain" in name
    ]
    assert shards == ["1/4", "2/4", "3/4", "4/4"]
    assert not any("--shard" in given for given in arguments(scenario(CRON)).values())


def test_every_verb_adds_to_the_history_and_keeps_it_as_long_as_the_values_say() -> None:
    for values, more in (({}, []), ({"keepHistory": "365d"}, ["--keep-history", "365d"])):
        given = arguments(with_spark(**values, history="s3://lake/h"))
        history = ["--history", "s3://lake/h", *more]
        assert {one[0]: one[3 : 3 + len(history)] for one in given.values()} == {
            "maintain": history,
            "verify": history,
        }


def test_a_pod_that_is_the_whole_spark_uses_the_cores_that_it_asks_for() -> None:
    values = scenario(CRON)
    for container in containers(values).values():
        assert container["command"] == ["python", "-m", "statemaint.spark"]
        given = container["args"]
        assert given[given.index("--master") + 1] == "local[8]"
        assert container["resources"]["requests"]["cpu"] == "8"
        assert variables(container)["STATEMAINT_MEMORY"] == "512MB"


def test_sparks_settings_reach_a_spark_of_its_own_word_by_word() -> None:
    [container, *_] = containers(scenario(CRON)).values()
    words = shlex.split(str(variables(container)["PYSPARK_SUBMIT_ARGS"]))
    assert words == [
        *("--conf", "spark.driver.extraJavaOptions=-XX:+UseSerialGC -Xss4m"),
        *("--conf", "spark.driver.memory=2g"),
        "pyspark-shell",
    ]


def test_an_application_knows_its_cores_before_its_executors_have_started() -> None:
    for manifest in applications(scenario(OPERATOR)):
        conf = manifest["spec"]["template"]["sparkConf"]
        assert conf["spark.default.parallelism"] == "32"
        assert conf["spark.kubernetes.executor.request.cores"] == "3500m"
    changed = with_spark(
        mode="sparkapplication", sparkConf={"spark.default.parallelism": "7"}
    )  # fmt: skip
    [manifest, *_] = applications(changed)
    assert manifest["spec"]["template"]["sparkConf"] == {"spark.default.parallelism": "7"}


def test_numbers_and_flags_of_sparks_settings_are_written_as_they_are() -> None:
    conf = {"spark.network.maxFrameSize": 50_000_000, "spark.ui.enabled": False, "spark.x": "1e3"}
    [manifest, *_] = applications(with_spark(mode="sparkapplication", sparkConf=conf))
    assert manifest["spec"]["template"]["sparkConf"] == {
        "spark.default.parallelism": "4",
        "spark.network.maxFrameSize": "50000000",
        "spark.ui.enabled": "false",
        "spark.x": "1e3",
    }
    [container, *_] = containers(with_spark(sparkConf=conf)).values()
    words = shlex.split(str(variables(container)["PYSPARK_SUBMIT_ARGS"]))
    assert "spark.network.maxFrameSize=50000000" in words
    assert "spark.ui.enabled=false" in words


def test_settings_of_hadoops_clients_reach_the_java_that_a_task_starts() -> None:
    conf = {"spark.hadoop.fs.azure.account.auth.type": "OAuth", "spark.app.name": "x"}
    [manifest, *_] = applications(with_spark(mode="sparkapplication", sparkConf=conf))
    driver, executor = (pod["spec"]["containers"][0] for pod in sparkoperator.pods(manifest))
    words = shlex.split(str(variables(executor)["PYSPARK_SUBMIT_ARGS"]))
    assert words == ["--conf", "spark.hadoop.fs.azure.account.auth.type=OAuth", "pyspark-shell"]
    assert "PYSPARK_SUBMIT_ARGS" not in variables(driver)  # its Spark has them


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.example.Provider"),
        ("spark.hadoop.fs.azure.account.key", "${env.LAKE_KEY}"),
        ("spark.kubernetes.authenticate.driver.mounted.oauthTokenFile", "/var/run/token"),
        ("spark.kubernetes.executor.secrets.lake-keys", "/etc/lake"),
        ("spark.kubernetes.executor.secretKeyRef.ACCESS_KEY", "lake-keys:key"),
    ],
)
def test_a_setting_that_names_where_a_secret_is_shows_none(key: str, value: str) -> None:
    [container, *_] = containers(with_spark(sparkConf={key: value})).values()
    assert f"{key}={value}" in shlex.split(str(variables(container)["PYSPARK_SUBMIT_ARGS"]))


def test_driver_and_executors_have_the_same_access_and_only_tasks_a_limit() -> None:
    [manifest, *_] = applications(scenario(OPERATOR))
    driver, executor = (pod["spec"]["containers"][0] for pod in sparkoperator.pods(manifest))
    assert driver["envFrom"] == executor["envFrom"] == [{"configMapRef": {"name": "azure"}}]
    assert driver["volumeMounts"] == executor["volumeMounts"]
    own = {"STATEMAINT_MEMORY": "1GB", "PYSPARK_SUBMIT_ARGS": "pyspark-shell"}
    assert variables(executor) == {**variables(driver), **own}
    assert variables(driver)["HADOOP_OPTIONAL_TOOLS"] == "hadoop-azure"
    assert manifest["spec"]["timeZone"] == "Europe/Berlin"
    assert manifest["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_driver_may_make_executors_in_its_namespace_and_no_more() -> None:
    manifests = render(scenario(OPERATOR))
    [rule] = one(manifests, "Role")["rules"]
    assert rule["apiGroups"] == [""]
    assert set(rule["resources"]) == {"configmaps", "persistentvolumeclaims", "pods", "services"}
    assert "*" not in rule["verbs"]
    binding = one(manifests, "RoleBinding")
    [subject] = binding["subjects"]
    account = one(manifests, "ServiceAccount")["metadata"]["name"]
    assert (subject["name"], binding["roleRef"]["name"]) == (account, "statemaint-spark")
    for manifest in applications(scenario(OPERATOR)):
        application = manifest["spec"]["template"]
        assert application["driver"]["serviceAccount"] == account
        assert application["executor"]["serviceAccount"] == account
    assert not [each for each in render(scenario(CRON)) if each["kind"].startswith("Role")]


def test_an_account_of_others_keeps_its_own_rights() -> None:
    account = {"create": False, "name": "spark"}
    manifests = render(with_spark(mode="sparkapplication", serviceAccount=account))
    assert not [each for each in manifests if each["kind"] in ("Role", "RoleBinding")]
    [pod, *_] = sparkoperator.pods(one(manifests, "ScheduledSparkApplication", "-maintain"))
    assert pod["spec"]["serviceAccountName"] == "spark"


@pytest.mark.parametrize("name", [CRON, OPERATOR])
def test_java_knows_the_user_of_every_pod(name: str) -> None:
    values = scenario(name)
    manifests = render(values)
    users = one(manifests, "ConfigMap", "-spark")["data"]["passwd"].splitlines()
    wanted = values.get("storage", {}).get("runAsUser", 65532)
    assert [int(line.split(":")[2]) for line in users] == [0, wanted]
    specs = [
        each["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        for each in manifests
        if each["kind"] == "CronJob"
    ]
    specs += [
        pod["spec"] for each in applications(values) for pod in sparkoperator.pods(each)
    ]  # fmt: skip
    for spec in specs:
        assert spec["securityContext"]["runAsUser"] == wanted
        [mount] = (
            each
            for each in spec["containers"][0]["volumeMounts"]
            if each["mountPath"] == "/etc/passwd"
        )
        assert (mount["subPath"], mount["readOnly"]) == ("passwd", True)


def test_driver_and_executors_reach_each_other_and_the_api_behind_a_network_policy() -> None:
    policy = one(render(scenario(OPERATOR)), "NetworkPolicy", "-spark")["spec"]
    peers = [{"podSelector": policy["podSelector"]}]
    assert policy["ingress"] == [{"from": peers}]
    assert {"to": peers} in policy["egress"]
    ports = [port["port"] for rule in policy["egress"] for port in rule.get("ports", ())]
    assert 6443 in ports
    alone = one(render(scenario(CRON)), "NetworkPolicy", "-spark")["spec"]
    assert alone["ingress"] == []
    assert 6443 not in [port["port"] for rule in alone["egress"] for port in rule["ports"]]


def test_the_version_of_spark_is_that_of_the_image() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["spark"]["sparkApplication"]
    lock = (ROOT / "requirements.lock").read_text()
    assert re.search(r"^pyspark==(\S+)", lock, re.MULTILINE)[1] == values["sparkVersion"]  # type: ignore[index]


# What has no effect, or cannot run.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no image": (
        {**SPARK, "spark": {"enabled": True}},
        "spark.image.repository: is empty, and that image has Spark; build the target spark",
    ),
    "Airflow beside it": (
        {**SPARK, "airflow": {"enabled": True}},
        (
            "Airflow would maintain the same queries; set airflow.enabled to false, or set "
            "spark.maintain.enabled to false and let Airflow run queries on Spark (engine: spark)"
        ),
    ),
    "CronJobs beside it": (
        {**SPARK, "cronJobs": {"enabled": True}, "image": {"repository": "x"}},
        "spark.enabled: the CronJobs of cronJobs.enabled would work on the same queries",
    ),
    "savepoints of no query": (
        with_spark(savepoint={"enabled": True}),
        "spark.savepoint.enabled: no query says where its savepoints are; add savepoint: {to:",
    ),
    "nothing": (
        with_spark(maintain={"enabled": False}, verify={"enabled": False}),
        "spark.enabled: nothing would run",
    ),
    "an age without a history": (
        with_spark(keepHistory="365d"),
        "spark.keepHistory: has no effect without spark.history",
    ),
    "a secret": (
        with_spark(history="s3://key:word@lake/h"),
        "spark.history: the address has a secret in it",
    ),
    "a secret setting": (
        with_spark(sparkConf={"spark.hadoop.fs.s3a.secret.key": "x"}),
        "spark.sparkConf.spark.hadoop.fs.s3a.secret.key: a secret would stand in the manifests",
    ),
    "savepoints without a volume": (
        {
            **with_spark(savepoint={"enabled": True}),
            "queries": {
                "queries": {
                    "a": {"checkpoint": "s3://lake/a", "savepoint": {"to": "/saved/{batch}"}}
                }
            },
        },
        "queries.queries.a.savepoint.to: /saved/{batch} is a path, and no entry of storage.volumeM",
    ),
    "a history without a volume": (
        with_spark(history="/data/history"),
        "spark.history: /data/history is a path, and no entry of storage.volumeMounts has it",
    ),
    "another master": (
        with_spark(sparkConf={"spark.master": "yarn"}),
        "spark.sparkConf.spark.master: the chart gives it itself",
    ),
    "another size of executors": (
        with_spark(mode="sparkapplication", sparkConf={"spark.executor.instances": 3}),
        "spark.sparkConf.spark.executor.instances: the chart gives it itself",
    ),
    "an apostrophe": (
        with_spark(sparkConf={"spark.app.name": "it's"}),
        "spark.sparkConf.spark.app.name: has an apostrophe",
    ),
    "a bad cron": (
        with_spark(verify={"schedule": "61 * * * *"}),
        'spark.verify.schedule: "61 * * * *" is not a valid schedule: it has the minute 61',
    ),
    "a flag of the chart": (
        with_spark(maintain={"extraArgs": ["--shard=1/2"]}),
        "spark.maintain.extraArgs: the chart gives --shard itself; take it out",
    ),
    "no such mode": (with_spark(mode="yarn"), "at '/spark/mode'"),
    "a path without a volume": (
        {**SPARK, "queries": {"queries": {"a": {"checkpoint": "/data/a"}}}},
        "/data/a is a path, and no entry of storage.volumeMounts has it",
    ),
}
# Keys of a query that only Airflow, or only a job of its own, can heed.
KEYS: dict[str, tuple[object, str]] = {
    "engine": ("tasks", "spark.enabled runs every query on Spark; take it out"),
    "spark": ({"master": "yarn"}, "and give spark.sparkConf what all queries need"),
    "after": ("asset", "only Airflow can do this, and spark.enabled runs without it"),
    "timeout": ("1h", ("has no effect, as spark.enabled has one program for all queries; take it "
                "out; spark.cronJob.timeout is for all")),
    "retries": (1, "spark.cronJob.retries is for all"),
    "max_tasks": (4, "has no effect, as spark.enabled has one program for all queries"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_or_has_no_effect_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(helm_python.HelmError) as error:
        render(values)
    assert sentence in str(error.value)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_query_that_spark_does_not_heed_is_refused(key: str) -> None:
    value, sentence = KEYS[key]
    query = {"checkpoint": "s3://lake/a", key: value}
    with pytest.raises(helm_python.HelmError) as error:
        render({**SPARK, "queries": {"queries": {"a": query}}})
    assert f"queries.queries.a.{key}: " in str(error.value)
    assert sentence in str(error.value)


def test_airflow_may_maintain_while_spark_verifies() -> None:
    values = with_spark(maintain={"enabled": False})
    query = {"checkpoint": "s3://lake/a", "engine": "spark", "timeout": "1h"}
    manifests = render(
        {**values, "airflow": {"enabled": True}, "queries": {"queries": {"a": query}}}
    )
    [job] = (each for each in manifests if each["kind"] == "CronJob")
    assert job["metadata"]["name"] == "statemaint-spark-verify"


def test_the_notes_tell_how_to_run_a_job_now() -> None:
    notes = texts(scenario(CRON))["statemaint/templates/NOTES.txt"]
    assert "create job --from=cronjob/statemaint-spark-maintain " in notes
    assert "spark.jobNamespaces" in texts(scenario(OPERATOR))["statemaint/templates/NOTES.txt"]


def test_the_notes_ask_for_the_exporter_as_spark_pushes_no_record() -> None:
    line = "set exporter.enabled, to have alerts and dashboards work."
    for enabled in (True, False):
        values = {**scenario(CRON), "exporter": {"enabled": enabled}}
        values |= {"pushgateway": {"url": "http://gw:9091"}, "image": {"repository": "r"}}
        notes = texts(values)["statemaint/templates/NOTES.txt"]
        assert (line in notes) is not enabled
