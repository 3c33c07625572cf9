"""From a query's address, and its optional Airflow connection, to its storage."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowRuntimeError,
    AirflowSecretsBackendAccessDenied,
)

from statemaint.errors import ConfigError
from statemaint.queries.checks import BUCKETS
from statemaint.storage import Opener, S3Options, Storage, open_storage
from statemaint.storage.s3.options import checked_endpoint, options_from
from statemaint.wording import counted

if TYPE_CHECKING:
    from boto3 import Session

_TYPE = "aws"
OWN_TYPE = "statemaint"
"""The same fields as `aws`, for an Airflow without Amazon's provider package, and so its form."""
_EXTRAS = ("aws_session_token", "endpoint_url", "profile_name", "region_name")


def open_checkpoint(checkpoint: str, connection: str | None) -> Storage:
    """Returns the storage of a checkpoint, reached with the settings of an Airflow connection.

    Without a connection all settings come from the environment, as on the command line. With one,
    of Airflow's type `aws` or of our own type `statemaint`, the keys, region and endpoint are the
    connection's; the other `STATEMAINT_S3_...` variables still apply.
    """
    return open_storage(checkpoint, s3=_options(connection) if connection else None)


def opener(connection: str | None) -> Opener:

    def opened(address: str) -> Storage:
        on_s3 = address.partition("://")[0] in BUCKETS
        return open_checkpoint(address, connection if on_s3 else None)

    return opened


def tried(connection: str | None) -> str:
    """Lists the buckets of S3 with the settings of a connection; returns the answer in words."""
    from statemaint.storage.s3.client import client_of  # noqa: PLC0415 -- not for parsing a DAG
    from statemaint.storage.s3.errors import S3Error, translated  # noqa: PLC0415 -- as above

    options = _options(connection) if connection else options_from(os.environ)
    client, *_ = client_of(replace(options, attempts=1))
    where = options.endpoint or "Amazon S3"
    try:
        with translated(where):
            listed = client.list_buckets()["Buckets"]
    except S3Error as error:
        if error.reason != "AccessDenied":
            raise
        return f"{where} accepts the keys, which may not list the names of buckets"
    return f"{where} accepts the keys, which see {counted(len(listed), 'bucket')}"


def _options(connection: str) -> S3Options:
    stored = stored_connection(connection)
    if stored is None:
        raise ConfigError(
            f"the Airflow connection {connection} is not defined, or not for this task; create one "
            f"of type {_TYPE!r} with that id"
        )
    return s3_options(stored, os.environ)


def stored_connection(name: str) -> Connection | None:
    """Returns a connection; `None` if it is not defined, or not for this task."""
    try:
        stored: Connection = Connection.get(name)
    except (AirflowException, AirflowRuntimeError, AirflowSecretsBackendAccessDenied):
        return None
    return stored


def s3_options(connection: Connection, environment: Mapping[str, str]) -> S3Options:
    name = f"the Airflow connection {connection.conn_id}"
    if connection.conn_type not in (_TYPE, OWN_TYPE):
        raise ConfigError(f"{name} is of type {connection.conn_type!r}; S3 takes type {_TYPE!r}")
    extra = _extra(connection, name)
    endpoint = checked_endpoint(f"{name}: endpoint_url", extra.pop("endpoint_url", None))
    options = options_from(environment)
    session = _session(connection, extra, name)
    return replace(options, session=session, endpoint=endpoint or options.endpoint)


def _extra(connection: Connection, name: str) -> dict[str, Any]:
    # Airflow's own `extra_dejson` treats unreadable text as empty.
    try:
        document = json.loads(connection.extra or "{}")
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ConfigError(f"{name}: its extra is not a JSON object")
    extra = {key: value for key, value in document.items() if value}
    for key, value in extra.items():
        if key not in _EXTRAS:
            raise ConfigError(
                f"{name}: the extra {key!r} is not supported; the extras are "
                f"{', '.join(_EXTRAS)}; take it out, or name no connection and use a boto3 profile"
            )
        if not isinstance(value, str):
            raise ConfigError(f"{name}: the extra {key!r} must be text")
    return extra


def _session(connection: Connection, extra: Mapping[str, Any], name: str) -> "Session":
    # The plugin and the DAGs are also imported where S3 is not needed.
    import boto3  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    key, secret = connection.login or None, connection.password or None
    if bool(key) != bool(secret):
        raise ConfigError(f"{name}: has only one of access key and secret; give both, or neither")
    try:
        return boto3.Session(aws_access_key_id=key, aws_secret_access_key=secret, **extra)
    except BotoCoreError as error:
        raise ConfigError(f"{name}: {error}") from None
