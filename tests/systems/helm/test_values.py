"""Values that the chart refuses: each with a sentence that names the place and the remedy."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml
from croniter import croniter  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from statemaint.queries.reading import read_queries
from tests.support.planted import secret
from tests.systems.helm.support import render

pytestmark = pytest.mark.helm

IMAGE = {"repository": "registry.example.com/statemaint"}
JOBS: dict[str, Any] = {
    "airflow": {"enabled": False},
    "cronJobs": {"enabled": True},
    "image": IMAGE,
}


def query(checkpoint: str = "s3://lake/a", **more: object) -> dict[str, Any]:
    return {"checkpoint": checkpoint, **more}


def queries(**given: dict[str, Any]) -> dict[str, Any]:
    return {"queries": {"queries": given}}


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(helm_python.HelmError) as error:
        render(values)
    return str(error.value)


# What both the chart and `statemaint queries FILE validate` refuse.
SHARED = {
    "a bad cron": (
        queries(a=query(schedule="61 * * * *")),
        (
            'queries.queries.a.schedule: "61 * * * *" is not a valid schedule: it has the minute '
            "61; it is from 0 to 59; correct it"
        ),
    ),
    "too few fields": (queries(a=query(schedule="* * *")), "has 3 fields; a cron expression has"),
    "words": (queries(a=query(schedule="hourly")), "is not a valid schedule"),
    "no such name": (queries(a=query(schedule="@often")), "is none of @once, @hourly"),
    "no such day": (queries(a=query(schedule="0 0 31 4,6 *")), "names a day that no year has"),
    "one checkpoint": (
        queries(a=query("s3://lake/x"), b=query("s3a://lake//x/")),
        (
            "queries.queries.b.checkpoint: a and b have one checkpoint (s3a://lake//x/); leave one "
            "of the two out, or give each its own"
        ),
    ),
    "one path": (
        queries(a=query("/data/x"), b=query("file:///data/y/../x")),
        "have one checkpoint",
    ),
    "one NameNode": (
        queries(a=query("hdfs://node:8020/x"), b=query("webhdfs://NODE:9870/x")),
        "have one checkpoint",
    ),
    "one inside another": (
        queries(outer=query("s3://lake/x"), inner=query("s3n://lake/x/y/z")),
        "queries.queries.inner.checkpoint: it lies inside that of outer; give each query",
    ),
    "a bucket around": (
        queries(outer=query("s3://lake"), inner=query("s3://lake/x")),
        "lies inside that of outer",
    ),
    "one by for_each": (
        queries(**{"a_{n}": query("s3://lake/x", for_each={"n": ["1", "2"]})}),
        "a_1 and a_2 have one checkpoint",
    ),
    "one name": (
        queries(
            **{
                "a_{n}": query("s3://lake/{n}", for_each={"n": ["1"]}),
                "a_1": query("s3://lake/other"),
            }
        ),
        "makes a query a_1, as a_1 does; rename one",
    ),
    "a name without its value": (
        queries(a=query("s3://lake/{n}", for_each={"n": ["1", "2"]})),
        "the query's name lacks {n}",
    ),
    "savepoints at a relative path": (
        queries(a=query(savepoint={"to": "saved/{batch}"})),
        'queries.queries.a.savepoint.to: "saved/{batch}" is neither an absolute path nor an ad',
    ),
    "savepoints in one folder": (
        queries(a=query(savepoint={"to": "s3://backup/a"})),
        'queries.queries.a.savepoint.to: "s3://backup/a" needs {batch} in its last part',
    ),
    "savepoints below that of a batch": (
        queries(a=query(savepoint={"to": "s3://backup/{batch}/{batch}"})),
        "needs {batch} in its last part, and only there",
    ),
    "a bad cron of savepoints": (
        queries(a=query(savepoint={"to": "s3://backup/{batch}", "schedule": "61 * * * *"})),
        'queries.queries.a.savepoint.schedule: "61 * * * *" is not a valid schedule: it has the m',
    ),
    "a name with a space": (
        queries(**{"a b": query()}),
        'queries.queries.a b: "a b" must be a name of up to 200 letters, digits and _ . -',
    ),
    "no time": (
        queries(a=query(timeout="0s")),
        "queries.queries.a.timeout: must be longer than 0s",
    ),
    "a relative folder": (
        {"queries": {"queries": {}, "textfile": "metrics"}},
        'queries.textfile: "metrics" is not an absolute path; give the folder, from / on',
    ),
    "a relative path": (queries(a=query("data/x")), "neither an absolute path nor an address"),
    "an unknown key": (
        queries(a=query(cron="@hourly")),
        "at '/queries/queries/a': additional properties 'cron' not allowed",
    ),
    "an unknown setting": (
        queries(a=query(policy={"grce": "1h"})),
        "at '/queries/queries/a/policy': additional properties 'grce' not allowed",
    ),
    "a duration": (queries(a=query(policy={"grace": "1 hour"})), "/queries/queries/a/policy/grace"),
    "a connection for Spark": (
        queries(a=query(engine="spark", connection="lake")),
        "with engine: spark, executors take their credentials from their environment",
    ),
    "what is together without Spark": (
        queries(a=query(together="hourly")),
        "together is for queries that share a Spark program; add `engine: spark`",
    ),
    "a setting that no Spark has": (
        queries(a=query(engine="spark", spark={"cores": 4})),
        "at '/queries/queries/a/spark': additional properties 'cores' not allowed",
    ),
}
OWN: dict[str, tuple[dict[str, Any], str]] = {
    "Spark in a CronJob without Spark": (
        {**JOBS, **queries(a=query(engine="spark"))},
        ("queries.queries.a.engine: a CronJob of cronJobs.enabled has no Spark; set spark.enabled "
        "instead, which runs every query on Spark, or airflow.enabled, which runs this one on "
        "Spark, or take it out"),
    ),
    "Airflow's schedule": (
        {**JOBS, **queries(a=query(schedule="0 0 l * *"))},
        'has "l" as its day of the month',
    ),
    "Sunday by seven": (
        {**JOBS, **queries(a=query(schedule="0 0 * * 7"))},
        "has the day of the week 7; it is from 0 to 6",
    ),
    "Airflow's key": (
        {**JOBS, **queries(a=query(connection="lake"))},
        "queries.queries.a.connection: only Airflow can do this, and cronJobs.enabled runs without",
    ),
    "once": ({**JOBS, **queries(a=query(schedule="@once"))}, "is none of @hourly, @daily"),
    "two maintainers": (
        {**JOBS, "airflow": {"enabled": True}},
        "cronJobs.enabled: Airflow would maintain the same queries",
    ),
    "no image": ({"exporter": {"enabled": True}}, "image.repository: is empty, and the exporter"),
    "a path without a volume": (
        {**JOBS, **queries(a=query("/database/x")),
         "storage": {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}},
        "/database/x is a path, and no entry of storage.volumeMounts has it",
    ),
    "a folder of node_exporter without a volume": (
        {**JOBS, "queries": {"queries": {}, "textfile": "/metrics"}},
        "queries.textfile: no entry of storage.volumeMounts has /metrics; mount the node's folder",
    ),
    "a Pushgateway's connection": (
        {**JOBS, "queries": {"queries": {}, "pushgateway_auth": {"connection": "gateway"}}},
        "queries.pushgateway_auth.connection: only Airflow has connections",
    ),
    "two monitors": (
        {"exporter": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}},
        "the ServiceMonitor scrapes the same pod",
    ),
    "no address": ({"pushgateway": {"url": "pushgateway:9091"}}, "write it like http://pushgateway"),
    "a short digest": ({"image": {"digest": "sha256:12"}}, "at '/image/digest'"),
    "no role": ({"exporter": {"serviceAccount": {"awsRoleArn": "reader"}}}, "does not match"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "sentence"), SHARED.values(), ids=SHARED)
def test_refuses_what_the_program_refuses(
    values: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    assert sentence in refused(values)
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump(values["queries"]))
    assert read_queries(file).all_problems


@pytest.mark.parametrize(("values", "sentence"), OWN.values(), ids=OWN)
def test_refuses_what_cannot_be_deployed(values: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(values)


def test_all_mistakes_are_told_at_once() -> None:
    told = refused(queries(a=query(schedule="x"), b=query("s3://lake/a", schedule="y")))
    assert len(re.findall(r"^- queries\.queries\.", told, re.MULTILINE)) == 3


KEY = secret("values")
SECRETS = {
    "the address of a checkpoint": queries(a=query(f"s3://AKIA:{KEY}@lake/x")),
    "its token": queries(a=query(f"https://lake/x?sig={KEY}")),
    "that of savepoints": queries(a=query(savepoint={"to": f"s3://AKIA:{KEY}@lake/{{batch}}"})),
    "a setting of Spark": queries(
        a=query(engine="spark", spark={"conf": {"spark.hadoop.fs.s3a.secret.key": KEY}})
    ),
    "an address for Spark": queries(
        a=query(engine="spark", spark={"conf": {"spark.x": f"https://u:{KEY}@s3"}})
    ),
    "the Pushgateway": {"pushgateway": {"url": f"http://user:{KEY}@gateway:9091"}},
    "one without a scheme": {"pushgateway": {"url": f"user:{KEY}@gateway"}},
    "that of the queries": {"queries": {"queries": {}, "pushgateway": f"http://u:{KEY}@gateway"}},
    "a variable": {"storage": {"env": {"AWS_SECRET_ACCESS_KEY": KEY}}},
    "a password": {"storage": {"env": {"STATEMAINT_PUSHGATEWAY_PASSWORD": KEY}}},
    "a variable's address": {"storage": {"env": {"STATEMAINT_S3_ENDPOINT": f"https://u:{KEY}@s3"}}},
}


@pytest.mark.parametrize("values", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_refused_and_not_shown(values: dict[str, Any]) -> None:
    told = refused(values)
    assert "secret" in told
    assert KEY not in told


# -- values of 0.2.0, as they were released: those of ci/, and all defaults

RELEASED = sorted((Path(__file__).parent / "released").glob("*.yaml"))


@pytest.mark.parametrize("file", RELEASED, ids=lambda file: file.stem)
def test_values_of_0_2_still_render_with_the_same_jobs(file: Path) -> None:
    values = yaml.safe_load(file.read_text())
    made = render(values)
    jobs = {each["metadata"]["name"]: each["spec"] for each in made if each["kind"] == "CronJob"}
    assert bool(jobs) == values.get("cronJobs", {}).get("enabled", False)
    assert not [name for name in jobs if name.endswith("-verify")]
    queries = values["queries"].get("queries", {})
    for spec in jobs.values():
        schedules = {one.get("schedule", "@yearly") for one in queries.values()}
        assert spec["schedule"] in schedules | {"0 0 1 */3 *"}


# -- schedules

NUMBERS = st.integers(0, 70).map(str)
RANGES = st.tuples(NUMBERS, NUMBERS).map("-".join)
WORDS = st.sampled_from(["*", "mon", "SUN", "feb", "l", "L5", "5#2", "?", "x", "h", "0-6", "1-12"])
PARTS = NUMBERS | RANGES | WORDS
ITEMS = PARTS | st.tuples(PARTS, NUMBERS).map("/".join)
FIELDS = st.just("*") | st.lists(ITEMS, min_size=1, max_size=2).map(",".join)
LIKELY = st.tuples(
    *(
        st.just("*") | st.integers(least, most).map(str) | st.integers(1, most).map("*/{}".format)
        for least, most in ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    )
).map(" ".join)


def accepts(schedule: str, *, jobs: bool = False) -> bool:
    more = JOBS if jobs else {}
    try:
        render({**more, **queries(a=query(schedule=schedule))})
    except helm_python.HelmRenderError:
        return False
    return True


def is_valid(schedule: str) -> bool:
    try:
        croniter(schedule, datetime(2026, 1, 1, tzinfo=UTC)).get_next(datetime)
    except (ValueError, KeyError, TypeError):
        return False
    return True


@settings(max_examples=60)
@given(st.lists(FIELDS, min_size=5, max_size=5).map(" ".join) | LIKELY)
def test_what_the_chart_accepts_airflow_accepts(schedule: str) -> None:
    if accepts(schedule):
        assert is_valid(schedule), schedule


@settings(max_examples=40)
@given(LIKELY)
def test_ordinary_schedules_are_accepted_where_airflow_does(schedule: str) -> None:
    assert accepts(schedule) == is_valid(schedule), schedule


@pytest.mark.parametrize(
    "schedule",
    ["@hourly", "@quarterly", "*/5 * * * *", "0 6-22/2 * * MON-FRI", "0 0 1,15 jan,jul *",
     "30 4 29 2 *", "5/15 * * * *", "0 0 31 2 1"],
)  # fmt: skip
def test_both_flavours_take_what_both_can_do(schedule: str) -> None:
    assert accepts(schedule)
    assert accepts(schedule, jobs=True)


@pytest.mark.parametrize("schedule", ["0 0 l * *", "0 0 * * 5#2", "0 0 * * 7", "0 0 * * * 30"])
def test_airflow_takes_more(schedule: str) -> None:
    assert accepts(schedule)
    assert not accepts(schedule, jobs=True)
