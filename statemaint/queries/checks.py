"""The checks of single values in the queries file; each raises `ValueError` with what to do."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from croniter import croniter  # type: ignore[import-untyped]

from statemaint.errors import ConfigError
from statemaint.model.policy import seconds
from statemaint.storage import has_secret

PRESET_SCHEDULES = (
    "@once", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly",
)  # fmt: skip
BUCKETS = ("s3", "s3a", "s3n")
_ABSOLUTE = r"(?i:file:)?/|[A-Za-z][A-Za-z0-9+.-]*://"
_CRON = r"\S+( +\S+){4,5}"
_CONNECTION = r"[\w#!()\-.:/\\]{1,250}"  # as in Airflow's check of a connection's id
_CALLABLE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"
_LABELS = (
    r"__.*|alertname|cause|code|dag|detail|figures|file|instance|job|key|le|line|looked|namespace"
    r"|operator|origin|outcome|owner|partition|query|reason|result|severity|state|storage|store"
    r"|task|verb|verdict|version"
)
# No year of the calendar is special to a cron expression, except for 29 February.
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_LONGEST = 36_500 * 86_400.0  # the times of Python, and so of Airflow, have an end
_QUARTERLY = "0 0 1 */3 *"  # croniter knows the other presets
_RUNS = 60  # a year of weeks shows weekends, months and quarters


NO_QUERY_NAME = "must be a name of up to 200 letters, digits and _ . -"


def is_query_name(name: str) -> bool:
    """Returns whether a text can name a query; dots alone would be a folder around another."""
    return bool(name.strip(".") and re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", name))


def duration_in_seconds(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError(f"not a duration: {value!r}; write it like 90s, 15m, 1h or 7d")  # noqa: TRY004 -- only a ValueError becomes a validation error
    try:
        return seconds(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def free_label(name: str) -> str:
    if re.fullmatch(_LABELS, name):
        raise ValueError(f"{name} is a label of metrics or alerts already; choose another tag")
    return name


def some_time(value: float) -> float:
    if value <= 0:
        raise ValueError("must be longer than 0s")
    if value > _LONGEST:
        raise ValueError("must be at most 36500d")
    return value


def without_secret(text: str, instead: str) -> str:
    if has_secret(text):
        raise ValueError(f"the address has a secret in it, which would be shown; give it {instead}")
    return text


def absolute_address(checkpoint: str) -> str:
    """Returns the address of a checkpoint that means the same on every worker."""
    where = "in an Airflow connection or where boto3 or Hadoop look for them"
    without_secret(checkpoint, f"without, and the credentials {where}")
    if re.match(_ABSOLUTE, checkpoint):
        return checkpoint
    raise ValueError(
        f"{checkpoint!r} depends on where a task happens to run; give an absolute path or an "
        "address such as file:///data/checkpoint"
    )


def savepoint_address(to: str) -> str:
    """Returns the address of savepoints; `{batch}` in the last part puts them beside each other."""
    if unknown := re.findall(r"\{(?!query\}|batch\})[^{}/]*\}", to):
        raise ValueError(
            f"{unknown[0]} is unknown here; {{query}} stands for the query's name, {{batch}} for "
            "the batch that is saved"
        )
    folder, _, last = to.rstrip("/").rpartition("/")
    if "{batch}" not in last or "{batch}" in folder or folder.strip("/")[-1:] in ("", ":"):
        raise ValueError(
            f"{to!r} needs {{batch}} in its last part, and only there: each savepoint has a folder "
            "of its own; write it like s3://backup/{query}/{batch}"
        )
    return to


def some_rule(rules: Mapping[str, int]) -> Mapping[str, int]:
    if not rules:
        raise ValueError("names no savepoint to keep; write it like {last: 7, weekly: 4}")
    return rules


def _shown(value: str) -> str:
    """Returns a wrong value in quotes; an address, which may have a secret, is not shown."""
    return "an address" if "://" in value or "@" in value else repr(value)


def absolute_folder(path: str) -> str:
    """Returns the path of a folder that means the same on every worker."""
    if path.startswith("/"):
        return path
    raise ValueError(f"{_shown(path)} is not an absolute path; give the folder, from / on")


def secret_file(path: str) -> str:
    """Returns the path of a file with a secret; what is not a path may be the secret itself."""
    if path.startswith("/"):
        return path
    raise ValueError("not an absolute path; give that of the file, from / on")


@lru_cache(maxsize=2048)
def valid_schedule(schedule: str) -> str:
    """Returns a schedule that Airflow accepts; its library for cron expressions decides."""
    if schedule in PRESET_SCHEDULES:
        return schedule
    if not re.fullmatch(_CRON, schedule):
        raise ValueError(
            f"{schedule!r} is not a valid schedule; write a cron expression of five fields or one "
            f"of {', '.join(PRESET_SCHEDULES)}"
        )
    try:
        croniter(schedule, _SOME_DAY).get_next(datetime)
    except (ValueError, KeyError, TypeError) as error:
        why = " ".join(str(error).split())
        raise ValueError(f"{schedule!r} is not a valid cron expression: {why}") from None
    return schedule


@lru_cache(maxsize=2048)
def expected_interval(schedule: str | None) -> float | None:
    """Returns the seconds between two runs of a valid schedule, at most; `None` without one."""
    if (runs := _runs(schedule, _SOME_DAY)) is None:
        return None
    times = [runs.get_next(float) for _ in range(_RUNS)]
    return float(max(later - earlier for earlier, later in pairwise(times)))


def newest_time(schedule: str | None, now: float) -> float | None:
    """Returns the newest time of a valid schedule (UTC) up to now; `None` without one."""
    runs = _runs(schedule, int(now) + 1)
    return None if runs is None else float(runs.get_prev(float))


def _runs(schedule: str | None, start: datetime | int) -> Any:
    if schedule in (None, "@once"):
        return None
    return croniter(_QUARTERLY if schedule == "@quarterly" else schedule, start)


def valid_connection(connection: str) -> str:
    if re.fullmatch(_CONNECTION, connection):
        return connection
    raise ValueError(
        f"{_shown(connection)} cannot be the id of an Airflow connection, which has up to 250 "
        "letters, digits and - _ . : /; give the connection's id, not an address"
    )


def valid_asset(asset: str) -> str:
    without_secret(asset, "without")
    if urlsplit(asset).scheme == "airflow":
        raise ValueError(f"Airflow keeps the scheme of {asset} for itself; give another Asset")
    return asset


def valid_callable(path: str) -> str:
    if re.fullmatch(_CALLABLE, path):
        return path
    raise ValueError(
        f"{_shown(path)} is not the path of a callable; write it like package.module.name"
    )


def open_argument(value: object) -> object:
    return without_secret(value, "in an Airflow connection") if isinstance(value, str) else value


def spark_setting(value: object) -> str:
    """Returns the value of a Spark setting as text, in Spark's form, without a secret."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError("must be a text, a number, true or false")  # noqa: TRY004 -- as above
    return str(open_argument(value))


def spark_setting_name(name: str) -> str:
    if re.search("secret|password|token", name, re.IGNORECASE):
        raise ValueError(
            "its value is a secret, which would be shown; give it in spark-defaults.conf, or by "
            "the environment of Spark's driver and executors"
        )
    return name


def must_be_open(gateway: str) -> str:
    """Returns a Pushgateway's address without a secret; the error does not show the address."""
    if "@" in gateway or has_secret(gateway):
        raise ValueError(
            "the address has a secret in it, which would be shown; give it without, and set "
            "STATEMAINT_PUSHGATEWAY_USER and STATEMAINT_PUSHGATEWAY_PASSWORD where tasks run"
        )
    return gateway


def web_address(address: str) -> str:
    parts = urlsplit(must_be_open(address))
    if parts.scheme in ("http", "https") and parts.netloc:
        return address
    raise ValueError("not a web address; write it like http://pushgateway:9091")
