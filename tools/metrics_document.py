"""Makes docs/metrics.md from the catalogue: `python -m tools.metrics_document`."""

import sys
from collections.abc import Iterable, Iterator

from statemaint.metrics.catalogue import METRICS, Detail, Metric, most_series
from statemaint.metrics.tasks import ENDING_SECONDS, EVERY

_HEAD = """\
# Metrics

Made from `statemaint/metrics/catalogue.py` by `make generated`; do not edit.

All names have the prefix `statemaint_`. They show the record that each run leaves with the
checkpoint, whether Airflow, Spark or the program runs it (ADR 0040, 0052). Figures that the last
run did not look at, as when it failed early, stay as last known; `figures_timestamp_seconds` is
their time. Every series of a query has these labels, where they are known:

| label | value |
|---|---|
| `query` | the query's name |
| `origin` | the installation: `STATEMAINT_ORIGIN`, or a digest (see below) |
| `namespace` | the namespace in Kubernetes: `STATEMAINT_NAMESPACE`, or that of the pod |
| `owner` | `owner` of the query's entry |
| those of `alert_labels` | with `[team]`, the tag `team:payments` becomes `team="payments"` |

The chart sets both variables. The digest is that of the path of the queries file and, in Airflow,
of Airflow's address; so where both the Pushgateway and the exporter are scraped, give both the same
`STATEMAINT_ORIGIN`: otherwise each query counts as two. Where the path changes, as it does with
each version of an Airflow DAG bundle, set it too: otherwise each path is another installation. Two
queries files need two: a run deletes the metrics of its `origin` whose queries are not in its file;
in Airflow only a run of the file that `STATEMAINT_QUERIES` names, or of `statemaint_queries.yaml`.
There are three ways to get the metrics:

- **Pushgateway** (`pushgateway:` in the queries file): the task `report` pushes one group for each
  query, `job="statemaint", origin=..., query=...`, in one request. A run spends at most 10 s on its
  pushes, whatever the Pushgateway does; a lost push is logged and counted. The groups of queries
  that are no longer in the file are deleted. Credentials never belong in the address:
  `pushgateway_auth:` names a file with `user:password` or with a bearer token, the files of a TLS
  client, or an Airflow connection.
- **Textfile** (`textfile:`): one file per query for node_exporter, `statemaint_QUERY@ORIGIN.prom`,
  and one per task, `statemaint_QUERY@TASK@ORIGIN.prom`. All tasks of a query need the same folder:
  on another node an older file stays, and alerts take the worst of both.
- **Exporter** (`statemaint exporter --queries FILE`): a server for scraping, which reads one small
  file of each checkpoint every minute, and no state.

A query has at most {query} series, whatever the number of its partitions. With
`detail: partition` in its entry it has {partition} more for each partition. Counters are stored
with the checkpoint and survive restarts of everything else. An unknown value is NaN or absent,
never 0.

The exporter serves some 60 series of a healthy query. It leaves out zeros that only replace what an
earlier push wrote (of gauges such as `stores_unloadable`, and all but one label of a metric such as
`last_run_failed`; dashboards and alerts read them as 0 where another metric shows that they are
known), the worst partitions that restart within 30 s from at most 50 deltas, except the first, most
bounds of the histograms with their sums, and the verbs of `last_run_storage_requests`: their sum
has the verb `all`. What is wrong it serves in full, as a push does.

## Tasks

Each task of a DAG reports its own work in the group `job="statemaint", origin, query, task`: when
it begins, every {every:g} s while it works, and when it ends, whatever its outcome (ADR 0041).
`origin` is the installation whose file has the query; queries of DAGs in Python have none. `task`
is the verb with the index or the part: `maintain-plan`, `maintain-3`, `maintain-report`,
`verify-0`, `undo-apply`, `savepoint-expire`. The first task of a run deletes the groups of an
earlier run of that verb, so that each verb has at most `max_tasks` + 2. A task has at most {task}
series, besides those of its query; a figure that is unknown is absent. It waits for a push only at
its end: for at most {ending:g} s, and for at most 1 s if an earlier push was lost. The exporter
does not serve these series. The query's record counts the same work again once the run has
reported it: never add the two.

With `engine: spark` the task in Airflow reports, and has figures at its end. The driver of
`python -m statemaint.spark maintain`, `verify` or `savepoint` reports one group a query, such as
`maintain-0`; its figures, too, are known at the end. A run with the file's first query by name then
deletes, within 4 s, the groups and files of queries that are no longer in the file.

A task that is killed keeps the state `working`, and its `task_reported_timestamp_seconds` no longer
changes.

## Alerts and dashboards

`helm/statemaint/files/alerts.yaml` has the rules, in Prometheus's format: an incident is one
alert of one query, and a storage that is down is one alert. They carry the labels above, by which
Alertmanager can route; `helm/statemaint/files/alertmanager.yaml` has inhibition rules for it. From
the chart, an alert links to its heading in the [runbook](runbook.md), to the query's dashboard and
to its DAG, where their addresses are set. `helm/statemaint/files/dashboards` has three dashboards
for Grafana 11 and 12: the fleet, which leads to a query, which leads to its partitions and to the
DAG. Their hidden variables `airflow` and `runbook` hold the addresses of these; the chart delivers
them all and sets the variables (`airflow.url`, `dashboard.grafanaUrl`, `alerts.runbookBaseUrl`).
`make up` shows the alerts live.
"""


def document() -> str:
    head = _HEAD.format(
        query=most_series(),
        partition=most_series(1) - most_series(),
        task=sum(one.detail is Detail.TASK for one in METRICS),
        every=EVERY,
        ending=ENDING_SECONDS,
    )
    return "\n".join([head, *_sections()])


def _sections() -> Iterator[str]:
    titles = {
        Detail.QUERY: "Of a query",
        Detail.PARTITION: "Of a partition (`detail: partition`)",
        Detail.TASK: "Of a task, while it works and after it",
        Detail.EXPORTER: "Of the exporter itself",
    }
    for detail, title in titles.items():
        yield f"## {title}\n"
        yield from _table(one for one in METRICS if one.detail is detail)
        yield ""


def _table(metrics: Iterable[Metric]) -> Iterator[str]:
    yield from ("| metric | type | unit | labels | question |", "|---|---|---|---|---|")
    for one in metrics:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        yield f"| `{one.name}` | {one.kind} | {one.unit} | {labels} | {one.question} |"


if __name__ == "__main__":
    sys.stdout.write(document())
