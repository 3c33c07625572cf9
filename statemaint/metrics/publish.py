"""Publishes a query's record: pushed to a Pushgateway, written as a textfile, or both.

A query has one group, `job="statemaint"` with its origin and name, and a push is one request: it
adds to the group, so that other families keep their last value. Series of each partition have their
own group, which is replaced as a whole. Its time is bounded whatever the Pushgateway does.

node_exporter's textfile collector reads one file for each query, which has the same families.
"""

import json
import logging
import os
import ssl
import urllib.request
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from glob import escape
from http.client import HTTPException
from pathlib import Path
from threading import Thread, get_ident
from time import monotonic
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from statemaint.metrics.catalogue import BY_FAMILY, BY_NAME, Detail
from statemaint.metrics.families import families, registry_of, waiting
from statemaint.metrics.options import GatewayAuth, Named, Targets
from statemaint.report.record import Record

Credentials = tuple[str | None, str] | None
"""A user and a password."""
# The failures of publishing; a ValueError is an invalid address or file.
ERRORS = (OSError, HTTPException, ValueError)
JOB = "statemaint"
USER_VARIABLE = "STATEMAINT_PUSHGATEWAY_USER"
PASSWORD_VARIABLE = "STATEMAINT_PUSHGATEWAY_PASSWORD"  # noqa: S105 -- its name
SECONDS = 8.0
"""The time of all pushes of a run's report; a run that waits for a lease adds `WAITING_SECONDS`."""
WAITING_SECONDS = 1.0
# The grouping label of the series of each partition.
_DETAIL = "detail"
_SKEW_SECONDS = 60.0
"""How far apart the clocks of a run's tasks may be."""
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NOT_PRUNED = "metrics of missing queries are not removed"

_log = logging.getLogger(__name__)


def publish_record(
    named: Named, record: Record, targets: Targets, *, credentials: Credentials = None
) -> bool:
    """Publishes a record, and removes the published metrics of missing queries.

    Maintenance is complete even if its metrics are lost: the loss is logged, and returned as false.
    `credentials` are those of an Airflow connection; by default the environment's.
    """
    made = [*families(named, record)]
    folder = targets.textfile
    written = folder is None or _try(lambda: _write(folder, named, targets, made))
    if not targets.gateway:
        return written
    gateway, began = gateway_of(targets, credentials), monotonic()
    pushed = _try(lambda: within(SECONDS, lambda: gateway.add(named.group, made)))
    if pushed and targets.known is not None:
        left = max(0.0, SECONDS + began - monotonic())
        _try(lambda: within(left, lambda: _prune(gateway, named, targets)), _NOT_PRUNED)
    return pushed and written


def remove_missing(named: Named, targets: Targets, seconds: float) -> None:
    """Removes the published metrics of queries that are no longer in the file, if all are known.

    A Pushgateway has some seconds for it. A failure is logged.
    """
    folder, known = targets.textfile, targets.known
    if known is not None and folder:
        _try(lambda: remove_textfiles(folder, named, known=known), _NOT_PRUNED)
    if known is not None and targets.gateway:
        gateway = gateway_of(targets, None)
        _try(lambda: within(seconds, lambda: _prune(gateway, named, targets)), _NOT_PRUNED)


def publish_waiting(
    named: Named, since: float, targets: Targets, *, credentials: Credentials = None
) -> None:
    made = [waiting(named, since)]
    if folder := targets.textfile:
        _try(lambda: write_textfile(made, named=named, folder=folder))
    if targets.gateway:
        gateway = gateway_of(targets, credentials)
        _try(lambda: within(WAITING_SECONDS, lambda: gateway.add(named.group, made)))


def gateway_of(targets: Targets, credentials: Credentials) -> "Gateway":
    given = credentials or credentials_from(os.environ)
    return Gateway(str(targets.gateway), targets.auth, given)


def _write(folder: Path, named: Named, targets: Targets, made: list[Family]) -> None:
    write_textfile(made, named=named, folder=folder)
    if targets.known is not None:
        remove_textfiles(folder, named, known=targets.known)


def _prune(gateway: "Gateway", named: Named, targets: Targets) -> None:
    for removed in gateway.prune(named, targets.known or frozenset(), targets.detailed):
        _log.info("%s is no longer in the queries file; its metrics are removed", removed)


def _try(publish: Callable[[], object], failed: str = "metrics are not published") -> bool:
    try:
        publish()
    except ERRORS as error:
        _log.warning("%s: %s", failed, error)
        return False
    return True


class Gateway:
    """A Pushgateway; without a user, the password of its credentials is a bearer token."""

    def __init__(
        self,
        address: str,
        auth: GatewayAuth = GatewayAuth(),  # noqa: B008 -- frozen
        credentials: Credentials = None,
    ) -> None:
        self._base = (address if "://" in address else f"http://{address}").rstrip("/")
        self._auth, self._credentials = auth, credentials

    def add(self, group: Mapping[str, str], families: list[Family]) -> None:
        """Adds families to a group, such as a query's, and replaces those of its partitions.

        As all methods, it raises `OSError` when the Pushgateway cannot be reached or refuses, and
        `ValueError` when its address, its answer or a file with a secret is not valid.
        """
        units = [each for each in families if BY_FAMILY[each.name].detail is Detail.PARTITION]
        whole = [each for each in families if BY_FAMILY[each.name].detail is not Detail.PARTITION]
        self._ask("POST", _path(group), registry_of(whole))
        if units:
            self._ask("PUT", _path({**group, _DETAIL: "partition"}), registry_of(units))

    def replace(self, group: Mapping[str, str], families: list[Family]) -> None:
        """Replaces a group, such as a task's; deletes it if there are no families."""
        path = _path(group)
        if families:
            self._ask("PUT", path, registry_of(families))
        else:
            self._ask("DELETE", path)

    def prune(self, named: Named, known: frozenset[str], detailed: frozenset[str]) -> list[str]:
        """Deletes the groups of an installation's missing queries, and returns their names.

        Groups of tasks that began before their run's `plan` are deleted too: those of a larger
        `max_tasks`. Groups of other installations, and of users' DAGs, stay.
        """
        groups = _groups(self._ask("GET", "/api/v1/metrics"))
        found = [group["labels"] for group in groups if group["labels"].get("job") == JOB]
        left = _left_behind(groups)
        # Earlier builds had one group for each name, whatever the installation.
        unnamed = {
            labels["query"]: _origin(group)
            for group in groups
            if (labels := group["labels"]).keys() == {"job", "query"}
        }
        ours = _ours(named)
        present = {
            labels["query"]
            for labels in found
            if labels.keys() == {"job", "origin", "query"} and labels["origin"] == named.origin
        }
        missing = set()
        for labels in found:
            query, origin = labels.get("query", ""), labels.get("origin")
            if labels.get("origin", unnamed.get(query)) not in ours:
                continue
            if query not in known:
                missing.add(query)
            replaced = query in present and origin != named.origin
            undetailed = _DETAIL in labels and query not in detailed
            if query not in known or replaced or undetailed or labels in left:
                self._ask("DELETE", _path({k: v for k, v in labels.items() if k != "job"}))
        return sorted(missing)

    def _ask(self, method: str, path: str, registry: CollectorRegistry | None = None) -> bytes:
        if "@" in self._base:  # of a variable; an error of the library would show it
            raise ValueError(
                "the Pushgateway's address has a secret in it, which would be shown; set "
                f"{USER_VARIABLE} and {PASSWORD_VARIABLE}"
            )
        body = None if registry is None else generate_latest(registry)
        request = urllib.request.Request(  # noqa: S310 -- the operator's own server
            self._base + path, data=body, method=method, headers=dict(self._headers())
        )
        tls = ssl.create_default_context(cafile=self._auth.ca_file)
        if self._auth.cert_file:
            tls.load_cert_chain(self._auth.cert_file, self._auth.key_file)
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=tls), _NoRedirects)
        try:
            with opener.open(request, timeout=SECONDS) as answer:
                reply: bytes = answer.read()
        except HTTPError as error:
            with error:
                why = f"{error.code} {error.reason}"
            raise OSError(f"the Pushgateway answers {why}") from None
        return reply

    def _headers(self) -> Iterator[tuple[str, str]]:
        yield "Content-Type", _TYPE
        user, word = self._credentials or (None, "")
        auth = self._auth
        if auth.basic_auth_file:
            user, _, word = _secret(auth.basic_auth_file).partition(":")
        if auth.bearer_token_file:
            user, word = None, _secret(auth.bearer_token_file)
        if user is not None:
            yield "Authorization", "Basic " + b64encode(f"{user}:{word}".encode()).decode()
        elif word := word.strip():
            if not word.isprintable():  # the library's error would show it
                raise ValueError("the token for the Pushgateway must have one line")
            yield "Authorization", f"Bearer {word}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirection would hand the credentials to another server."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return


def within(seconds: float, work: Callable[[], object]) -> None:
    """Does some work for a limited time; raises `TimeoutError` and abandons what has not ended."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 -- raised again by the caller's thread
            raised.append(error)

    # A timeout of a socket bounds one answer of the other side, not all of them together.
    thread = Thread(target=run, name="statemaint-push", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"no answer of the Pushgateway within {seconds:g} s")
    if raised:
        raise raised[0]


def credentials_from(environment: Mapping[str, str]) -> Credentials:
    user = environment.get(USER_VARIABLE)
    return (user, environment.get(PASSWORD_VARIABLE, "")) if user else None


def _secret(path: str) -> str:
    secret = Path(path).read_text(encoding="utf-8").strip()
    if not secret or "\n" in secret:
        raise ValueError(f"{path} must have one line")
    return secret


def _path(group: Mapping[str, str]) -> str:
    labels = "".join(f"/{name}{_encoded(value)}" for name, value in group.items())
    return f"/metrics/job/{JOB}{labels}"


def _encoded(value: str) -> str:
    """Returns a label's value in a path, which a Pushgateway splits at slashes, quoted or not."""
    if "/" in value:
        return f"@base64/{urlsafe_b64encode(value.encode()).decode()}"
    return f"/{quote(value, safe='')}"


def _groups(answer: bytes) -> list[dict[str, Any]]:
    try:
        groups = json.loads(answer)["data"]
        return [group for group in groups if isinstance(group["labels"], dict)]
    except (KeyError, TypeError) as error:
        raise ValueError("the Pushgateway's answer is not a list of groups") from error


def _left_behind(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Returns the labels of the groups of tasks that are of an earlier run than their `plan`."""
    begun = {}
    for group in groups:
        metrics = group.get(BY_NAME["task_started_timestamp_seconds"].full, {}).get("metrics")
        if group["labels"].get("job") == JOB and "task" in group["labels"] and metrics:
            begun[tuple(group["labels"].items())] = float(metrics[0]["value"])
    left = []
    for items, began in begun.items():
        labels = dict(items)
        plan = {**labels, "task": labels["task"].rpartition("-")[0] + "-plan"}
        if began + _SKEW_SECONDS < begun.get(tuple(plan.items()), 0.0):
            left.append(labels)
    return left


def _origin(group: Mapping[str, object]) -> str | None:
    info = group.get(BY_NAME["query_info"].full)
    metrics = info.get("metrics", []) if isinstance(info, dict) else []
    return next((metric.get("labels", {}).get("origin") for metric in metrics), None)


def write_textfile(families: Iterable[Family], *, named: Named, folder: Path) -> None:
    """Replaces a query's file; missing families keep their last value, as in a push.

    Its file of an earlier build, which had no origin in its name, is deleted, and so is the one of
    its former origin.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, given = folder / _file(named.query, named.origin), [*families]
    unnamed = folder / _file(named.query, "")
    others = {unnamed, folder / _file(named.query, named.former)} - {file}
    origins = {label.get("origin", "") for label in _info(unnamed)}
    earlier = [path for path in others if path != unnamed or origins & _ours(named)]
    names = {family.name for family in given}
    before = _before(file) or (_before(unnamed) if unnamed in earlier else [])
    kept = [each for each in before if each.name not in names and _is_ours(each, named)]
    _replace(file, [*given, *kept])
    for path in earlier:  # its series would be there twice
        path.unlink(missing_ok=True)


def _file(query: str, *more: str) -> str:
    """Returns the name of a query's file; no query's name has an `@`."""
    parts = (f"statemaint_{query}", *(quote(part, safe="") for part in more if part))
    return f"{'@'.join(parts)}.prom"


def _ours(named: Named) -> set[str]:
    return {named.origin, named.former or named.origin}


def remove_task_textfiles(folder: Path, named: Named, verb: str) -> None:
    """Deletes the files of a query's tasks of one verb, whatever their number."""
    ends = tuple(f"@{quote(origin, safe='')}" for origin in _ours(named))
    for file in folder.glob(f"{escape(f'statemaint_{named.query}@{verb}-')}*.prom"):
        if file.name.count("@") == 2 and file.stem.endswith(ends):  # noqa: PLR2004 -- as `write_task_textfile` names them
            file.unlink(missing_ok=True)


def write_task_textfile(folder: Path, group: Mapping[str, str], families: Sequence[Family]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Without an origin the name ends in `@`, by which it is a task's.
    origin = quote(group.get("origin", ""), safe="")
    file = folder / f"statemaint_{group['query']}@{group['task']}@{origin}.prom"
    _replace(file, families)


def _replace(file: Path, families: Iterable[Family]) -> None:
    # The name of a file may be as long as a name can be; that of the temporary one is short.
    temp = file.with_name(f".statemaint.{os.getpid()}.{get_ident()}.tmp")
    try:
        temp.write_bytes(generate_latest(registry_of(families)))
        temp.replace(file)
    finally:
        temp.unlink(missing_ok=True)


def remove_textfiles(folder: Path, named: Named, *, known: frozenset[str]) -> list[str]:
    """Deletes the files of an installation's missing queries, and returns their names."""
    removed, ours = set[str](), _ours(named)
    for file in sorted(folder.glob("statemaint_*.prom")):
        queries = {label["query"] for label in _info(file) if label.get("origin") in ours}
        if queries and not queries & known:
            file.unlink(missing_ok=True)
            removed |= queries
    return sorted(removed)


def _info(file: Path) -> Iterator[dict[str, str]]:
    wanted = {BY_NAME["query_info"].full, BY_NAME["task_state"].full}
    for family in _before(file):
        if family.name in wanted:
            yield from (sample.labels for sample in family.samples)


def _before(file: Path) -> list[Family]:
    try:
        return list(text_string_to_metric_families(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return []


def _is_ours(family: Family, named: Named) -> bool:
    metric = BY_FAMILY.get(family.name.removesuffix("_total"))
    return metric is not None and (named.every_unit or metric.detail is not Detail.PARTITION)
