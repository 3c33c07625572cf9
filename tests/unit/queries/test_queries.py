import json
import re
from pathlib import Path

import pytest

from statemaint.errors import ConfigError
from statemaint.metrics.catalogue import METRICS
from statemaint.model.policy import PRESETS, Policy
from statemaint.queries.merged import groups
from statemaint.queries.models import Notifier, Query
from statemaint.queries.problems import unresolved
from statemaint.queries.reading import QueriesReading, read_queries
from tests.support.paths import ROOT
from tests.support.queries import valid_queries
from tools.queries_schema import json_schema

SCHEMA = ROOT / "docs" / "queries.schema.json"
PACKAGED = ROOT / "statemaint" / "queries" / "schema.json"
FIRST = "checkpoint: /x, engine: spark, together: t"
SECOND = "checkpoint: /y, engine: spark, together: t"
EXAMPLE = ROOT / "dags" / "statemaint_queries.example.yaml"


def load(folder: Path, text: str) -> QueriesReading:
    file = folder / "queries.yaml"
    file.write_text(text, encoding="utf-8")
    return valid_queries(file)


def complaint(folder: Path, text: str) -> str:
    """Returns what is first said of a file, without its name and line, which must come first."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    first = str(caught.value).splitlines()[0]
    found = re.fullmatch(rf"{re.escape(str(folder / 'queries.yaml'))}(:\d+)?: (.*)", first)
    assert found
    return found[2]


def test_a_query_has_the_defaults_of_the_file_and_its_own_settings_on_top(tmp_path: Path) -> None:
    file = load(
        tmp_path,
        """
        defaults: {min_deltas_for_snapshot: 7, grace: 15m}
        queries:
          hourly_revenue: {checkpoint: /data/a, policy: {min_batches_to_retain: 50, grace: 2h}}
        """,
    )
    assert file.policy_of("hourly_revenue") == Policy(
        min_deltas_for_snapshot=7, min_batches_to_retain=50, grace=7200.0
    )


def test_an_empty_file_of_queries_has_no_query(tmp_path: Path) -> None:
    assert load(tmp_path, "defaults: {}\nqueries: {}\n").queries == {}


def test_the_policy_is_safe_by_default(tmp_path: Path) -> None:
    assert load(tmp_path, "queries: {a: {checkpoint: /a}}").policy_of("a") == PRESETS["safe"]


def test_a_preset_of_a_query_replaces_the_defaults(tmp_path: Path) -> None:
    file = load(
        tmp_path,
        """
        defaults: {preset: lean, orphan_age: 2d}
        queries:
          a: {checkpoint: /a}
          b: {checkpoint: /b, policy: {preset: spark, min_deltas_for_snapshot: 3}}
        """,
    )
    assert file.policy_of("a") == PRESETS["lean"].override(orphan_age=172800.0)
    assert file.policy_of("b") == PRESETS["spark"].override(min_deltas_for_snapshot=3)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_file_may_name_every_preset(tmp_path: Path, preset: str) -> None:
    text = f"defaults: {{preset: {preset}}}\nqueries: {{a: {{checkpoint: /a}}}}"
    assert load(tmp_path, text).policy_of("a") == PRESETS[preset]


def test_null_takes_a_time_limit_of_the_defaults_away(tmp_path: Path) -> None:
    file = load(
        tmp_path,
        """
        defaults: {max_seconds_per_run: 10m}
        queries:
          a: {checkpoint: /a}
          b: {checkpoint: /b, policy: {max_seconds_per_run: null}}
        """,
    )
    assert file.policy_of("a").max_seconds_per_run == 600.0
    assert file.policy_of("b").max_seconds_per_run is None


def test_a_query_is_run_by_hand_in_the_tasks_that_its_work_is_worth_unless_it_says_more(
    tmp_path: Path,
) -> None:
    query = load(tmp_path, "queries: {a: {checkpoint: /a}}").queries["a"]
    assert (query.schedule, query.after, query.engine, query.enabled) == (None, None, "tasks", True)
    assert (query.max_tasks, query.pool, query.priority, query.tags) == (None, "statemaint", 1, ())
    assert (query.retries, query.retry_delay, query.timeout) == (3, 60.0, 6 * 3600.0)


def test_spark_is_chosen_for_a_query_or_for_each_query_of_a_pattern(tmp_path: Path) -> None:
    queries = load(
        tmp_path,
        """
        queries:
          a: {checkpoint: /a, engine: spark}
          b: {checkpoint: /b}
          "c_{region}":
            for_each: {region: [eu, us]}
            checkpoint: /c/{region}
            engine: spark
            spark:
              connection: cluster
              conf: {spark.task.maxFailures: 8, spark.speculation: false}
              submit: {archives: "s3://lake/venv.tar.gz#venv", num_executors: 20}
        """,
    ).queries
    assert {name: one.engine for name, one in queries.items()} == {
        "a": "spark",
        "b": "tasks",
        "c_eu": "spark",
        "c_us": "spark",
    }
    assert queries["a"].spark is None
    for name in ("c_eu", "c_us"):
        spark = queries[name].spark
        assert spark
        assert spark.connection == "cluster"
        assert spark.conf == {"spark.task.maxFailures": "8", "spark.speculation": "false"}
        assert spark.submit["num_executors"] == 20


def test_queries_of_one_name_have_a_policy_tags_and_a_detail_of_their_own(tmp_path: Path) -> None:
    file = load(
        tmp_path,
        """
        queries:
          a: {checkpoint: /a, engine: spark, together: t, policy: {grace: 2h}, detail: partition}
          b: {checkpoint: /b, engine: spark, together: t, tags: [b], max_tasks: 4}
          c: {checkpoint: /c, engine: spark, together: t, schedule: "@daily", enabled: false}
          "d_{x}": {for_each: {x: [1, 2]}, checkpoint: "/d_{x}", engine: spark, together: "u_{x}"}
        """,
    )
    assert groups(file.queries) == {"t": ["a", "b"], "u_1": ["d_1"], "u_2": ["d_2"]}
    assert file.policy_of("a").grace == 7200.0


@pytest.mark.parametrize("schedule", ["@hourly", "5 * * * *", "*/20 0-6 1,15 * mon-fri"])
def test_a_schedule_is_a_name_or_a_cron_expression(tmp_path: Path, schedule: str) -> None:
    file = load(tmp_path, f"queries: {{a: {{checkpoint: /a, schedule: '{schedule}'}}}}")
    assert file.queries["a"].schedule == schedule


def test_a_mapping_may_be_written_once_and_used_twice(tmp_path: Path) -> None:
    file = load(
        tmp_path,
        """
        queries:
          a: &usual {checkpoint: /a, max_tasks: 3}
          b: {<<: *usual, checkpoint: /b}
        """,
    )
    assert (file.queries["b"].checkpoint, file.queries["b"].max_tasks) == ("/b", 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queries: [\n a: b", "expected ',' or ']', but got '<stream end>'"),
        ("queries:\n\ta: 1", "found character '\\t' that cannot start any token"),
        ("queries: \x00", "not YAML: unacceptable character #x0000: special characters are not"),
        ("queries: *x", "found undefined alias 'x'"),
        ("queries: !!python/name:os.system {}", "could not determine a cons"),
        ("", "must be a mapping with the key `queries`, even if it is empty"),
        ("- a", "must be a mapping with the key `queries`, even if it is empty"),
        ("x: 1", "queries: is missing; add it"),
        (
            "queries: {}\nx: 1",
            "x: no such key; the keys are defaults, pushgateway, pushgateway_auth, textfile,",
        ),
        ("queries: [a]", "queries: must be a mapping, not a list"),
        ("queries:\n  a: {checkpoint: /x}\n  a: {}", "queries.a: appears twice in its"),
        ("queries: {a: }", "queries.a: must be a mapping, not null"),
        ("queries: {a: /x}", 'queries.a: must be a mapping, not "/x"'),
        ("queries: {a: {}}", "queries.a.checkpoint: is missing; add it"),
        ("queries: {'a b': {checkpoint: /x}}", "queries.a b: must be a name of up to 200 lett"),
        (
            "queries: {no: {checkpoint: /x}}",
            "queries.False: must be text (in quotes, where YAML",
        ),
        ("queries: {a: {checkpoint: data/x}}", "queries.a.checkpoint: 'data/x' depends on where a"),
        ("queries: {a: {checkpoint: 5}}", "queries.a.checkpoint: must be text (in quotes, where"),
        ("queries: {a: {checkpoint: ''}}", 'queries.a.checkpoint: must not be empty, not ""'),
        (
            "queries: {a: {checkpoint: /x, rules: {}}}",
            "queries.a.rules: no such key; the keys are checkpoint, for_each, enabled, engine,",
        ),
        (
            "queries: {a: {checkpoint: /x, policy: {grce: 1h}}}",
            "queries.a.policy.grce: no such key; the keys are preset, min_deltas_for_snapshot, ",
        ),
        (
            "queries: {}\ndefaults: {grce: 1h}",
            "defaults.grce: no such key; the keys are preset, min_",
        ),
        (
            "queries: {a: {checkpoint: /x, policy: {min_deltas_for_snapshot: -1}}}",
            "queries.a.policy.min_deltas_for_snapshot: must be greater than or equal to 1, not -1",
        ),
        (
            "queries: {a: {checkpoint: /x, policy: {min_batches_to_retain: '5'}}}",
            'queries.a.policy.min_batches_to_retain: must be a valid integer, not "5"',
        ),
        (
            "queries: {}\ndefaults: {min_batches_to_retain: true}",
            "defaults.min_batches_to_retain: must be a valid integer, not true",
        ),
        (
            "queries: {}\ndefaults: {grace: 1 hour}",
            "defaults.grace: not a duration: '1 hour'; write it like 90s, 15m, 1h or 7d",
        ),
        ("queries: {}\ndefaults: {grace: 10}", "defaults.grace: not a duration: 10; write it like"),
        ("queries: {}\ndefaults: {grace: -1h}", "defaults.grace: not a duration: '-1h'; write it"),
        (
            "queries: {}\ndefaults: {preset: x}",
            "defaults.preset: must be 'spark', 'safe' or 'lean'",
        ),
        (
            "queries: {a: {checkpoint: /x, schedule: hourly}}",
            "queries.a.schedule: 'hourly' is not a valid schedule; write a cron expression",
        ),
        (
            "queries: {a: {checkpoint: /x, schedule: '99 * * * *'}}",
            "queries.a.schedule: '99 * * * *' is not a valid cron expression: [99 * * * *] is not",
        ),
        (
            "queries: {a: {checkpoint: /x, schedule: '0 0 30 2 *'}}",
            "queries.a.schedule: '0 0 30 2 *' is not a valid cron expression: failed to find next",
        ),
        (
            "queries: {a: {checkpoint: /a, timeout: 9999999999d}}",
            "queries.a.timeout: must be at most 36500d",
        ),
        (
            "queries: {a: {checkpoint: 'file:data/a'}}",
            "queries.a.checkpoint: 'file:data/a' depends on where a task happens to run; give an",
        ),
        (
            "queries: {a: {checkpoint: '://data/a'}}",
            "queries.a.checkpoint: '://data/a' depends on where a task happens to run; give an",
        ),
        (
            "queries: {a: {checkpoint: 's3://b/x', connection: 'a b'}}",
            "queries.a.connection: 'a b' cannot be the id of an Airflow connection",
        ),
        (
            "queries: {a: {checkpoint: 's3://b/x', engine: spark, connection: lake}}",
            "queries.a: with engine: spark, executors take their credentials from their environm",
        ),
        (
            "queries: {a: {checkpoint: /x, together: t}}",
            "queries.a: together is for queries that share a Spark program; add `engine: spa",
        ),
        (
            "queries: {a: {checkpoint: /x, engine: spark, together: a b}}",
            'queries.a.together: must be a name of letters, digits and _ . -, not "a b"',
        ),
        (
            f"queries: {{a: {{{FIRST}, schedule: '@daily'}}, b: {{{SECOND}, retries: 1}}}}",
            "queries.b.together: b differs from a in schedule, retries, and all queries of 't' sha",
        ),
        (
            f"queries: {{a: {{{FIRST}, after: 'statemaint://b'}}, b: {{{SECOND}}}}}",
            "queries.a.after: the query's DAG updates this Asset itself, and would run forever",
        ),
        (
            "queries: {a: {checkpoint: /x, spark: {connection: c, master: yarn}}}",
            "queries.a.spark: the connection has its own master; give only one of the two",
        ),
        (
            "queries: {a: {checkpoint: /x, spark: {submit: {archives: a}}}}",
            "queries.a.spark: submit and application are for spark-submit; give a connection, too",
        ),
        (
            "queries: {a: {checkpoint: /x, spark: {cores: 4}}}",
            "queries.a.spark.cores: no such key; the keys are connection, master, conf, submit,",
        ),
        (
            "queries: {a: {checkpoint: /x, spark: {conf: {fs.s3a.secret.key: x}}}}",
            "queries.a.spark.conf.fs.s3a.secret.key",
        ),
        (
            "queries: {a: {checkpoint: /x, spark: {conf: {spark.x: [1]}}}}",
            "queries.a.spark.conf.spark.x: must be a text, a number, true or false",
        ),
        (
            "queries: {}\npushgateway_auth: {password: x}",
            "pushgateway_auth.password: no such key; the keys are connection, basic_auth_file, ",
        ),
        (
            "queries: {a: {checkpoint: /x, engine: flink}}",
            "queries.a.engine: must be 'tasks' or 'spark', not",
        ),
        (
            "queries: {a: {checkpoint: /x, timeout: 0s}}",
            "queries.a.timeout: must be longer than 0s",
        ),
        (
            "queries: {a: {checkpoint: /x, after: 'statemaint://a'}}",
            "queries.a.after: the query's DAG updates this Asset itself, and would run forever",
        ),
        (
            "queries: {a: {checkpoint: /x, after: 'statemaint://a/findings'}}",
            "queries.a.after: the query's DAG updates this Asset itself, and would run forever",
        ),
        (
            "queries: {a: {checkpoint: /x, after: 'airflow://orders'}}",
            "queries.a.after: Airflow keeps the scheme of airflow://orders for itself; give anoth",
        ),
        (
            "queries: {a: {checkpoint: /x, after: 's3://me:hush@lake/orders'}}",
            "queries.a.after: the address has a secret in it, which would be shown; give it",
        ),
        (
            "queries: {a: {checkpoint: /x, notify: [{call: nothing}]}}",
            "queries.a.notify.0.call: 'nothing' is not the path of a callable; write it like pack",
        ),
        (
            "queries: {a: {checkpoint: /x, notify: [{calls: a.b}]}}",
            "queries.a.notify.0.call: is missing; add it",
        ),
        ("queries: " + "[" * 5000, "not YAML that can be read: it is nested too deeply"),
        ("queries: {a: {checkpoint: /x, max_tasks: 0}}", "queries.a.max_tasks: must be greater"),
        ("queries: {a: {checkpoint: /x, max_tasks: 1025}}", "queries.a.max_tasks: must be less"),
        ("queries: {a: {checkpoint: /x, retries: -1}}", "queries.a.retries: must be greater than"),
        ("queries: {a: {checkpoint: /x, tags: x}}", 'queries.a.tags: must be a list, not "x"'),
        ("queries: {a: {checkpoint: /x, tags: [1]}}", "queries.a.tags.0: must be text"),
        (
            "queries: {a: {checkpoint: /x, connection: lake}}",
            "queries.a: a connection is for S3 only, and not for /x; take `connection` out",
        ),
        ("queries: {}\npushgateway: host:9091", "pushgateway: not a web address; write it like"),
        ("queries: {}\ntextfile: here", "textfile: 'here' is not an absolute path"),
        ("queries:\n  ? [a]\n  : 1", "found unhashable key"),
        (
            "queries: {}\ntextfile: !!bool maybe",
            "not YAML: a value is not of the type that its tag",
        ),
        ("queries: {}\ntextfile: !!timestamp now", "not YAML: a value is not of the type that its"),
    ],
)
def test_a_malformed_file_is_one_line_with_the_key_and_what_to_do(
    tmp_path: Path, text: str, said: str
) -> None:
    assert complaint(tmp_path, text).startswith(said)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read \(No such file or direc"):
        valid_queries(tmp_path / "none.yaml")


def test_a_path_that_cannot_be_looked_up_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(File name too long\)"):
        valid_queries(tmp_path / ("x" * 300))


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "queries.yaml"
    file.write_bytes(b"queries: \xff")
    with pytest.raises(ConfigError, match="not UTF-8 text at byte 9"):
        valid_queries(file)


def read(folder: Path, text: str) -> QueriesReading:
    file = folder / "queries.yaml"
    file.write_text(text, encoding="utf-8")
    return read_queries(file)


def places(reading: QueriesReading) -> list[tuple[int, str]]:
    return [(one.line, one.key) for one in reading.all_problems]


def test_every_mistake_is_named_with_its_line_and_the_other_queries_are_kept(
    tmp_path: Path,
) -> None:
    reading = read(
        tmp_path,
        """
queries:
  good: {checkpoint: /good}
  cron:
    checkpoint: /cron
    schedule: "99 * * * *"
  misspelt:
    checkpoint: /misspelt
    polic: {}
    retries: -1
  lacking:
    schedule: "@hourly"
  also: {checkpoint: /also}
""",
    )
    assert list(reading.queries) == ["good", "also"]
    assert places(reading) == [
        (6, "queries.cron.schedule"),
        (9, "queries.misspelt.polic"),
        (10, "queries.misspelt.retries"),
        (11, "queries.lacking.checkpoint"),
    ]
    assert [entry.name for entry in reading.broken] == ["cron", "misspelt", "lacking"]


def test_queries_with_one_checkpoint_are_all_left_out(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        """
queries:
  a: {checkpoint: /x}
  b: {checkpoint: /other}
  c: {checkpoint: "file:///x/"}
  d: {checkpoint: /x/inside}
""",
    )
    assert list(reading.queries) == ["b"]
    assert [line for line, _ in places(reading)] == [3, 3, 5, 6]
    assert "c and d" not in str(reading.all_problems)


@pytest.mark.parametrize("mistake", ["defaults: {grce: 1h}", "default: {grace: 9h}"])
def test_a_mistake_in_the_defaults_leaves_out_every_query_that_takes_them(
    tmp_path: Path, mistake: str
) -> None:
    reading = read(
        tmp_path,
        f"""
{mistake}
queries:
  a: {{checkpoint: /a}}
  b: {{checkpoint: /b, policy: {{preset: safe}}}}
""",
    )
    assert list(reading.queries) == ["b"]
    assert [entry.name for entry in reading.broken] == ["a"]
    assert [line for line, _ in places(reading)] == [2]


def test_a_mistake_in_an_address_for_metrics_leaves_the_queries_alone(tmp_path: Path) -> None:
    reading = read(tmp_path, "pushgateway: host:9091\nqueries: {a: {checkpoint: /a}}")
    assert list(reading.queries) == ["a"]
    assert (reading.queries and reading.settings_of("a").pushgateway, reading.broken) == (None, ())
    assert places(reading) == [(1, "pushgateway")]


def test_a_key_that_stands_twice_leaves_its_query_out(tmp_path: Path) -> None:
    text = "queries:\n  a:\n    checkpoint: /a\n    checkpoint: /b\n  c: {checkpoint: /c}\n"
    reading = read(tmp_path, text)
    assert list(reading.queries) == ["c"]
    assert places(reading) == [(4, "queries.a.checkpoint")]


def test_a_pattern_makes_a_query_of_each_combination(tmp_path: Path) -> None:
    file = load(
        tmp_path,
        """
        queries:
          "clicks_{region}_{year}":
            for_each: {region: [eu, us], year: [2026, 2027]}
            checkpoint: s3://lake/{region}/clicks/{year}
            connection: lake_{region}
            tags: ["{region}", clicks]
            policy: {grace: 2h}
        """,
    )
    names = [f"clicks_{region}_{year}" for region in ("eu", "us") for year in (2026, 2027)]
    assert list(file.queries) == names
    found = file.queries["clicks_us_2026"]
    assert (found.checkpoint, found.connection) == ("s3://lake/us/clicks/2026", "lake_us")
    assert (found.tags, file.policy_of("clicks_us_2026").grace) == (("us", "clicks"), 7200.0)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("'a_{x}': {for_each: {x: []}, checkpoint: '/{x}'}", "queries.a_{x}.for_each: x must be a"),
        ("'a_{x}': {for_each: [x], checkpoint: '/{x}'}", "queries.a_{x}.for_each: must be a"),
        ("a: {for_each: {x: [b]}, checkpoint: '/{x}'}", "queries.a.for_each: the query's name lac"),
        (
            "'a_{x}': {for_each: {x: [b]}, checkpoint: '/{y}'}",
            "queries.a_{x}.checkpoint: {y} is not a name in for_each: x",
        ),
        (
            "'a_{x}': {for_each: {x: [b, c]}, checkpoint: /same}",
            "queries.a_{x}.checkpoint: a_b and a_c have one checkpoint (/same)",
        ),
        (
            "'a_{x}': {for_each: {x: [b, b]}, checkpoint: '/{x}'}",
            "queries.a_{x}: makes a query a_b, as a_{x} does; rename one",
        ),
        ("'a_{x}': {checkpoint: /x}", "queries.a_{x}: must be a name of up to 200 letters"),
        ("'..': {checkpoint: /x}", "queries...: must be a name of up to 200 letters"),
    ],
)
def test_a_pattern_that_does_not_fit_is_refused_with_its_key(
    tmp_path: Path, entry: str, said: str
) -> None:
    assert complaint(tmp_path, f"queries: {{{entry}}}").startswith(said)


def test_a_pattern_stands_for_a_thousand_queries_at_most(tmp_path: Path) -> None:
    values = ", ".join(map(str, range(40)))
    entry = f"'a_{{x}}_{{y}}': {{for_each: {{x: [{values}], y: [{values}]}}, checkpoint: '/{{x}}'}}"
    said = "queries.a_{x}_{y}.for_each: stands for 1600 queries; 1000 is the limit of one entry"
    assert complaint(tmp_path, f"queries: {{{entry}}}") == said


@pytest.mark.parametrize(
    ("call", "arguments", "said"),
    [
        ("json.dumps", {}, None),
        ("json.JSONEncoder", {"indent": 1}, "cannot be called"),
        ("json.JSONEncoder", {"oops": 1}, "json.JSONEncoder refuses its arguments: "),
        ("json.dumps", {"indent": 1}, "json.dumps is a function and takes no arguments"),
        ("json.nothing", {}, "json.nothing cannot be imported: "),
        ("no_such_module.nothing", {}, "no_such_module.nothing cannot be imported: No module"),
        ("json.decoder.NaN", {}, "json.decoder.NaN cannot be called"),
    ],
)
def test_what_is_notified_must_be_something_that_can_be_called(
    call: str, arguments: dict[str, object], said: str | None
) -> None:
    query = Query(checkpoint="/a", notify=(Notifier(call=call, arguments=arguments),))
    found = [why for _, _, why in unresolved({"a": query})]
    assert (said in found[0]) if said else (found == [])


def test_the_secret_of_a_notifiers_argument_is_refused(tmp_path: Path) -> None:
    notify = "[{call: a.b, arguments: {url: 'https://u:hush@host/x'}}]"
    said = complaint(tmp_path, f"queries: {{a: {{checkpoint: /a, notify: {notify}}}}}")
    assert said.startswith("queries.a.notify.0.arguments.url: the address has a secret in it")
    assert "hush" not in said


@pytest.mark.parametrize(
    "text",
    [
        "queries: {a: {checkpoint: 's3://b/x', connection: 'aws://key:hush@/?region_name=eu'}}",
        "queries: {a: {checkpoint: /a, notify: [{call: 'https://chat.example.com/hush'}]}}",
        "queries: {a: {checkpoint: /a, notify: ['https://me:hush@chat.example.com']}}",
        "queries: {a: 's3://me:hush@lake/a'}",
        "queries: {}\npushgateway_auth: 'me:hush'",
        "queries: {}\npushgateway_auth: {basic_auth_file: 'me:hush'}",
        "queries: {}\npushgateway_auth: {bearer_token_file: hush}",
        "queries: {}\ntextfile: 's3://me:hush@lake/a'",
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown(tmp_path: Path, text: str) -> None:
    assert "hush" not in complaint(tmp_path, text)


def test_the_shipped_schema_is_the_one_of_the_models() -> None:
    generated = json.dumps(json_schema(), indent=2) + "\n"
    assert SCHEMA.read_text(encoding="utf-8") == generated, "run `make generated`"


def test_the_package_carries_the_schema() -> None:
    assert PACKAGED.read_bytes() == SCHEMA.read_bytes(), "run `make generated`"


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    schema = json_schema()
    policy = schema["$defs"]["PolicySettings"]
    assert schema["additionalProperties"] is False
    assert policy["additionalProperties"] is False
    assert policy["properties"]["grace"]["pattern"] == r"^\d+(\.\d+)?[smhd]$"
    assert policy["properties"]["min_deltas_for_snapshot"]["minimum"] == 1


def test_the_example_is_a_queries_file() -> None:
    file = valid_queries(EXAMPLE)
    assert list(file.queries) == ["hourly_revenue", "click_join"]
    assert file.policy_of("hourly_revenue") == Policy(min_batches_to_retain=50)


def test_owner_and_the_chosen_tags_are_labels_of_alerts(tmp_path: Path) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text(
        "alert_labels: [team, tier]\n"
        "queries:\n"
        "  a: {checkpoint: /a, owner: ann, tags: ['team:x', team=y, tier=1:2, 'other:z', team]}\n"
        "  b: {checkpoint: /b, tags: ['tier:']}\n"
    )
    read = valid_queries(file)
    assert read.routing_of("a") == {"owner": "ann", "team": "x", "tier": "1:2"}
    assert read.routing_of("b") == {}


@pytest.mark.parametrize(
    "name",
    sorted({"query", "severity", "__name__", *(name for one in METRICS for name in one.labels)}),
)
def test_a_label_that_metrics_have_already_cannot_be_a_tag(tmp_path: Path, name: str) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text(f"alert_labels: [{name}]\nqueries: {{}}\n")
    [problem] = read_queries(file).all_problems
    assert f"{name} is a label of metrics or alerts already" in str(problem)
