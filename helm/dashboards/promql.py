"""The PromQL of the panels.

Each expression first reduces a metric to its own labels (`max by`), because a new pod of the
Pushgateway, or the exporter beside it, would count twice.
"""

# What identifies a query: two installations may have one of the same name.
ID = "query, origin, namespace"
UNIT = "operator, partition"
# The labels that some totals have.
_TOTAL = "result, verb"
# The exporter leaves these out where they are 0 (statemaint/metrics/exporter.py); they are known
# where the other metric is there.
_ZERO_WHERE_KNOWN = {
    "last_run_storage_errors": "last_run_tasks",
    "last_run_trash_bytes_deleted": "last_run_tasks",
    "last_run_trash_files_deleted": "last_run_tasks",
    "stores_unloadable": "partitions",
    "stores_unproved": "partitions",
    "trash_files": "trash_bytes",
}
_INSTALLATION = 'origin=~"$origin", namespace=~"$namespace"'
_QUERY = f'query=~"$query", {_INSTALLATION}'
_PARTITION = f'{_QUERY}, operator=~"$operator", partition=~"$partition"'


def per(labels: str, metric: str, known: str = ">= 0", chosen: str = "") -> str:
    """Returns the known values of a metric, for each query, and by labels."""
    # NaN stands for "not known"; a comparison drops it, but it would make a whole sum NaN.
    by = f"{ID}, {labels}" if labels else ID
    return f"max by ({by}) (statemaint_{metric}{{{_QUERY}{chosen}}} {known})"


def of_query(metric: str, **labels: str) -> str:
    """Returns the known values of a metric that has one for each query."""
    chosen = "".join(f', {name}="{value}"' for name, value in labels.items())
    values = per("", metric, chosen=chosen)
    if known := _ZERO_WHERE_KNOWN.get(metric):
        return f"({values} or {per('', known)} * 0)"
    return values


def of_partition(metric: str) -> str:
    """Returns the values of each partition, or of the worst five where a query has no more."""
    each, worst = (f"statemaint_{kind}_{metric}{{{_PARTITION}}}" for kind in _KINDS)
    return f"max by ({ID}, {UNIT}) (({each} or {worst}) >= 0)"


def of_every_partition(metric: str) -> str:
    """Returns the values of each partition of the queries that have them."""
    return f"max by ({ID}, {UNIT}) (statemaint_partition_{metric}{{{_PARTITION}}} >= 0)"


def halted_stores() -> str:
    """Returns the named halted stores; 0 for a query without any."""
    named = f"max by ({ID}, {UNIT}, store) (statemaint_halted_store{{{_PARTITION}}} > 0)"
    return f"{named} or ({of_query('partitions')} * 0)"


def gained(metric: str, window: str = "7d") -> str:
    """Returns by how much totals have grown; a query that is younger began at 0."""
    now = per(_TOTAL, metric)
    before = f"max by ({ID}, {_TOTAL}) (statemaint_{metric}{{{_QUERY}}} offset {window})"
    return f"({now} - ({before} or {now} * 0))"


def of_file(metric: str, more: str = "", pick: str = "max") -> str:
    """Returns a number of each installation's queries file, by more labels."""
    return f"{pick} by (origin, namespace{more}) (statemaint_{metric}{{{_INSTALLATION}}})"


def moment(event: str) -> str:
    """Returns when something happened last; nothing for what never did."""
    # The time 0 stands for "never", not for fifty years ago.
    return per("", f"{event}_timestamp_seconds", "> 0")


def since(event: str) -> str:
    """Returns the seconds since something happened last."""
    return f"time() - {moment(event)}"


def or_zero(expr: str) -> str:
    """Returns an expression with 0 for each query that it says nothing of."""
    return f"({expr}) or ({of_query('query_info')} * 0)"


def late() -> str:
    """Returns 1 for each query without a success in two and a half of its intervals, 0 else."""
    success = moment("last_success")
    limit = f"({of_query('expected_interval_seconds')} * 2.5 or {success} * 0 + 21600)"
    return f"(time() - {success}) > bool on ({ID}) {limit}"


def incidents() -> str:
    """Returns since when alerts are true, in milliseconds since 1970."""
    labels = f"alertname, severity, {ID}"
    return f'max by ({labels}) (ALERTS_FOR_STATE{{alertname=~"Statemaint.*", {_QUERY}}}) * 1000'


def runs(*, failed: bool) -> str:
    """Returns when each run ended, in milliseconds since 1970, for annotations."""
    ended = f"{moment('last_run')} * 1000"
    causes = f"sum by ({ID}) ({per('cause', 'last_run_failed')}) {'>' if failed else '=='} 0"
    return f"{ended} and on ({ID}) ({causes})"


_KINDS = ("partition", "worst_partition")
