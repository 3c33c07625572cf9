"""The destinations of the metrics of a query; nothing here loads a library."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GatewayAuth:
    """The credentials for a Pushgateway; secrets are in files, which are read at each push.

    Attributes:
        connection: the id of an Airflow connection: its login and password, or, without a login,
            its password as a bearer token.
        basic_auth_file: a file with `user:password`.
        bearer_token_file: a file with a bearer token.
        ca_file: the certificates that sign the Pushgateway's, in PEM.
        cert_file: the client's certificate, in PEM.
        key_file: its key; by default in the same file.
    """

    connection: str | None = None
    basic_auth_file: str | None = None
    bearer_token_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """The data of a query's metrics beyond its record.

    Attributes:
        query: its name.
        dag: the id of the DAG that maintains it; empty without Airflow.
        origin: the installation whose file has the query; empty if no file has it.
        interval: the seconds between two runs by the schedule; `None` without one.
        version: the version that maintained it last.
        every_unit: whether each partition has its own series.
    """

    query: str
    dag: str = ""
    origin: str = ""
    interval: float | None = None
    version: str = ""
    every_unit: bool = False


@dataclass(frozen=True, slots=True)
class Targets:
    """The destinations of metrics.

    Attributes:
        gateway: the Pushgateway's address; `None` without one.
        auth: the credentials for it.
        textfile: the folder for metrics files; `None` to write none.
        known: the names of all queries of the installation, for the query that removes the groups
            of missing ones; `None` for the others.
        detailed: those of them whose partitions have their own series.
    """

    gateway: str | None = None
    auth: GatewayAuth = GatewayAuth()
    textfile: Path | None = None
    known: frozenset[str] | None = None
    detailed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The metrics of a query of the queries file, for its tasks.

    Attributes:
        dag: the id of its DAG.
        origin: the installation.
        schedule: its schedule, if it has one.
        every_unit: whether each partition has its own series.
        auth: the credentials for the Pushgateway.
        known: as in `Targets`.
        detailed: as in `Targets`.
    """

    dag: str = ""
    origin: str = ""
    schedule: str | None = None
    every_unit: bool = False
    auth: GatewayAuth = GatewayAuth()
    known: frozenset[str] | None = None
    detailed: frozenset[str] = frozenset()
