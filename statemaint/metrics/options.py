"""The identity and the destinations of the metrics of a query; nothing here loads a library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

ORIGIN_VARIABLE, NAMESPACE_VARIABLE = "STATEMAINT_ORIGIN", "STATEMAINT_NAMESPACE"
_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class GatewayAuth:
    """The credentials of `queries.models.PushgatewayAuth`; their files are read at each push."""

    connection: str | None = None
    basic_auth_file: str | None = None
    bearer_token_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """The data of a query's metrics beyond its record; a text is empty where there is none."""

    query: str
    dag: str = ""
    origin: str = ""  # the installation whose file has the query
    interval: float | None = None  # the seconds between two runs by the schedule
    savepoint_interval: float | None = None
    version: str = ""  # that maintained it last
    every_unit: bool = False  # whether each partition has its own series
    former: str = ""  # the origin that it had before `STATEMAINT_ORIGIN` was set
    namespace: str = ""  # of Kubernetes
    storage: str = ""  # that holds its checkpoint, such as `s3://lake`
    routing: Mapping[str, str] = field(default_factory=dict)  # the labels that route its alerts

    @property
    def group(self) -> dict[str, str]:
        """Returns the labels that identify the query among those of all installations."""
        return {**({"origin": self.origin} if self.origin else {}), "query": self.query}

    @property
    def labels(self) -> dict[str, str]:
        return {**labels_of(self.origin, self.namespace), "query": self.query, **self.routing}


@dataclass(frozen=True, slots=True)
class Targets:
    """The destinations of metrics."""

    gateway: str | None = None  # its address
    auth: GatewayAuth = GatewayAuth()
    textfile: Path | None = None  # a folder
    # All queries of the installation, for the one that removes the groups of missing queries.
    known: frozenset[str] | None = None
    detailed: frozenset[str] = frozenset()  # those of them whose partitions have their own series


def origins_of(environment: Mapping[str, str], *facts: str) -> tuple[str, str]:
    """Returns the name of an installation; and, as without a variable, a digest of its facts."""
    digest = sha256(" ".join(facts).encode()).hexdigest()[:12]
    return environment.get(ORIGIN_VARIABLE) or digest, digest


def labels_of(origin: str, namespace: str) -> dict[str, str]:
    given = {"origin": origin, "namespace": namespace}
    return {name: value for name, value in given.items() if value}


def namespace_of(environment: Mapping[str, str]) -> str:
    """Returns the namespace of the program's pod; empty outside Kubernetes."""
    if (namespace := environment.get(NAMESPACE_VARIABLE)) is not None:
        return namespace
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
