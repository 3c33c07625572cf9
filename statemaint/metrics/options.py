"""The identity and the destinations of the metrics of a query; nothing here loads a library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

ORIGIN_VARIABLE, NAMESPACE_VARIABLE = "STATEMAINT_ORIGIN", "STATEMAINT_NAMESPACE"
_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


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
        savepoint_interval: those between two savepoints, likewise.
        version: the version that maintained it last.
        every_unit: whether each partition has its own series.
        former: the origin that it had before `STATEMAINT_ORIGIN` was set; empty without it.
        namespace: the namespace of Kubernetes that it is maintained in; empty without one.
        storage: the storage that holds its checkpoint, such as `s3://lake`.
        routing: the labels that route its alerts: `owner`, and those named by `alert_labels`.
    """

    query: str
    dag: str = ""
    origin: str = ""
    interval: float | None = None
    savepoint_interval: float | None = None
    version: str = ""
    every_unit: bool = False
    former: str = ""
    namespace: str = ""
    storage: str = ""
    routing: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> dict[str, str]:
        """Returns the labels that identify the query among those of all installations."""
        return {**({"origin": self.origin} if self.origin else {}), "query": self.query}

    @property
    def labels(self) -> dict[str, str]:
        """Returns the labels of each of its series."""
        return {**labels_of(self.origin, self.namespace), "query": self.query, **self.routing}


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


def origins_of(environment: Mapping[str, str], *facts: str) -> tuple[str, str]:
    """Returns the name of an installation, and the one that it has without a variable.

    That is a digest of facts that distinguish it.
    """
    digest = sha256(" ".join(facts).encode()).hexdigest()[:12]
    return environment.get(ORIGIN_VARIABLE) or digest, digest


def labels_of(origin: str, namespace: str) -> dict[str, str]:
    """Returns the labels of each series of an installation."""
    given = {"origin": origin, "namespace": namespace}
    return {name: value for name, value in given.items() if value}


def namespace_of(environment: Mapping[str, str]) -> str:
    """Returns the namespace of the program's pod; empty outside Kubernetes."""
    if (given := environment.get(NAMESPACE_VARIABLE)) is not None:
        return given
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
