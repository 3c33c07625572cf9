import json
from pathlib import Path

import pytest

from statemaint.errors import ConfigError
from statemaint.model.policy import PRESETS, Policy
from statemaint.queries import QueriesFile, json_schema, load_queries
from tests.support.paths import ROOT

SCHEMA = ROOT / "docs" / "queries.schema.json"
EXAMPLE = ROOT / "dags" / "statemaint_queries.example.yaml"


def load(folder: Path, text: str) -> QueriesFile:
    file = folder / "queries.yaml"
    file.write_text(text, encoding="utf-8")
    return load_queries(file)


def complaint(folder: Path, text: str) -> str:
    """Returns what is said of a file, without the file's own name, which must come first."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    said = str(caught.value)
    assert said.startswith(f"{folder / 'queries.yaml'}: ")
    assert "\n" not in said
    return said.removeprefix(f"{folder / 'queries.yaml'}: ")


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


def test_an_empty_file_of_queries_is_the_safe_policy_and_no_query(tmp_path: Path) -> None:
    file = load(tmp_path, "defaults: {}\nqueries: {}\n")
    assert dict(file.queries) == {}
    assert file.defaults.on_top_of(Policy()) == PRESETS["safe"]


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
    file = load(tmp_path, f"queries: {{}}\ndefaults: {{preset: {preset}}}")
    assert file.defaults.on_top_of(Policy()) == PRESETS[preset]


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


def test_a_query_is_run_by_hand_in_at_most_64_tasks_tried_twice_unless_it_says_more(
    tmp_path: Path,
) -> None:
    query = load(tmp_path, "queries: {a: {checkpoint: /a}}").queries["a"]
    assert (query.schedule, query.max_tasks, query.retries, query.tags) == (None, 64, 1, ())


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
        ("queries: [\n a: b", "line 2, column 6: expected ',' or ']', but got '<stream end>'"),
        ("queries:\n\ta: 1", "line 2, column 1: found character '\\t' that cannot start any token"),
        ("queries: \x00", "not YAML: unacceptable character #x0000: special characters are not"),
        ("queries: *x", "line 1, column 10: found undefined alias 'x'"),
        ("queries: !!python/name:os.system {}", "line 1, column 10: could not determine a cons"),
        ("", "must be a mapping with the key `queries`, even if it is empty"),
        ("- a", "must be a mapping with the key `queries`, even if it is empty"),
        ("x: 1", "queries: is missing; add it (and 1 more)"),
        ("queries: {}\nx: 1", "x: no such key; known are defaults, pushgateway, textfile, queries"),
        ("queries: [a]", "queries: must be a mapping, not a list"),
        ("queries:\n  a: {checkpoint: /x}\n  a: {}", "line 3, column 3: the key 'a' stands twice"),
        ("queries: {a: }", "queries.a: must be a mapping, not null"),
        ("queries: {a: /x}", 'queries.a: must be a mapping, not "/x"'),
        ("queries: {a: {}}", "queries.a.checkpoint: is missing; add it"),
        ("queries: {'a b': {checkpoint: /x}}", "queries.a b: must be a name of letters, digits"),
        ("queries: {no: {checkpoint: /x}}", "queries.0: must be text (in quotes, where YAML reads"),
        ("queries: {a: {checkpoint: data/x}}", "queries.a.checkpoint: 'data/x' depends on where a"),
        ("queries: {a: {checkpoint: 5}}", "queries.a.checkpoint: must be text (in quotes, where"),
        ("queries: {a: {checkpoint: ''}}", 'queries.a.checkpoint: must not be empty, not ""'),
        (
            "queries: {a: {checkpoint: /x, rules: {}}}",
            "queries.a.rules: no such key; known are checkpoint, connection, schedule, policy, max",
        ),
        (
            "queries: {a: {checkpoint: /x, policy: {grce: 1h}}}",
            "queries.a.policy.grce: no such key; known are preset, min_deltas_for_snapshot, ",
        ),
        ("queries: {}\ndefaults: {grce: 1h}", "defaults.grce: no such key; known are preset, min_"),
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
        ("queries:\n  ? [a]\n  : 1", "line 2, column 5: found unhashable key"),
    ],
)
def test_a_malformed_file_is_one_line_with_the_key_and_what_to_do(
    tmp_path: Path, text: str, said: str
) -> None:
    assert complaint(tmp_path, text).startswith(said)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read \(No such file or direc"):
        load_queries(tmp_path / "none.yaml")


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "queries.yaml"
    file.write_bytes(b"queries: \xff")
    with pytest.raises(ConfigError, match="not UTF-8 text at byte 9"):
        load_queries(file)


def test_the_shipped_schema_is_the_one_of_the_models() -> None:
    generated = json.dumps(json_schema(), indent=2) + "\n"
    assert SCHEMA.read_text(encoding="utf-8") == generated, "run `make generated`"


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    schema = json_schema()
    policy = schema["$defs"]["PolicySettings"]
    assert schema["additionalProperties"] is False
    assert policy["additionalProperties"] is False
    assert policy["properties"]["grace"]["pattern"] == r"^\d+(\.\d+)?[smhd]$"
    assert policy["properties"]["min_deltas_for_snapshot"]["minimum"] == 1


def test_the_example_is_a_queries_file() -> None:
    file = load_queries(EXAMPLE)
    assert list(file.queries) == ["hourly_revenue", "click_join"]
    assert file.policy_of("hourly_revenue") == Policy(min_batches_to_retain=50)
