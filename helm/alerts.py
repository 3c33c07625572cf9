"""Builds the alerting rules that the chart delivers, `helm/statemaint/files/alerts.yaml`.

    python helm/alerts.py

The expressions take the following into account:

- One incident is one alert of one query: what follows from another alert is left out (`unless`),
  in the order halted, plan failed, run failed, everything else.
- A Pushgateway repeats the last value of a group for ever, so that no expression assumes that a
  value is recent; only `StatemaintStale` asks how old it is.
- Only the labels of the metrics themselves are kept (`max by`), so that an alert survives a new
  pod, and it does not matter whether `honor_labels` is set, or whether both the Pushgateway and
  the exporter are scraped.
- A missing series fires only `StatemaintMetricsAbsent`: a new query has none.
"""

from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).resolve().parent / "statemaint" / "files" / "alerts.yaml"
CRITICAL, WARNING = "critical", "warning"

# What an alert that is not of one query leads to.
_OF_ALL = {"dashboard_url": "/d/statemaint"}

_HEAD = """\
# Alerting rules of statemaint, made by helm/alerts.py; do not edit. A plain Prometheus rules file
# with the default thresholds: load it as it is, or let the chart replace the thresholds and the
# runbook's address (templates/_helpers.tpl; the chart's tests fail when a pattern does not match).
groups:
  - name: statemaint
    rules:
"""


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule; `hold` is how long it must be true, `of_query` whether it has that label."""

    name: str
    expr: str
    severity: str
    summary: str
    description: str
    hold: str = "0m"
    of_query: bool = True


def _max(metric: str, labels: str = "query") -> str:
    return f"max by ({labels}) (statemaint_{metric})"


_QUERY = "{{ $labels.query }}"
_AGE = "{{ humanizeDuration $value }}"
_HALTED = _max('stores{outcome="halted"}') + " > 0"
_PLAN = _max('last_run_failed{cause="plan"}') + " > 0"
_RUN = _max('last_run_failed{cause=~"storage|task"}') + " > 0"
_LEASE = _max('last_run_failed{cause="lease"}') + " > 0"
_LONG = "max by (query) (statemaint_chain_length_max) > 200"
_SOURCES = 'up{job=~".*(statemaint|pushgateway).*"} == 0'
# By its own schedule, or six hours where it has none.
_PATIENCE = (
    f"{_max('expected_interval_seconds')} * 2.5\n"
    f"  or {_max('last_run_timestamp_seconds')} * 0 + 21600"
)
_CODES = (
    '{{ range printf "sum by (code) (statemaint_findings{query=%q}) > 0" $labels.query | query }}'
    "{{ .Labels.code }} ({{ .Value }}) {{ end }}"
)
_WITHHELD = (
    '{{ with printf "sum by (reason) (statemaint_snapshots_withheld{query=%q}) > 0" $labels.query '
    "| query }}{{ range . }}{{ .Labels.reason }} ({{ .Value }}) {{ end }}{{ else }}none{{ end }}"
)
_INTERVAL = (
    '{{ range printf "max(statemaint_expected_interval_seconds{query=%q})" $labels.query | query }}'
    ", a run every {{ humanizeDuration .Value }}{{ end }}"
)
# As its metrics name it: queries with `together` share one, a CronJob has none.
_DAG = (
    "the DAG {{ with printf \"statemaint_query_info{query=%q,dag!=''}\" $labels.query | query }}"
    '{{ . | first | label "dag" }}{{ else }}of the query{{ end }}'
)
_TASK = "query, origin, task"
# The time of a task's last push, or of its last file: node_exporter knows that by the file's name.
_FILE = 'node_textfile_mtime_seconds{file=~".*/statemaint_[^/]+@.+"}'
for _label, _group in (("query", "1"), ("task", "2"), ("origin", "3")):
    _FILE = (
        f'label_replace({_FILE}, "{_label}", "${_group}", "file", '
        '".*/statemaint_([^/@]+)@([^@]+)@(.*).prom")'
    )
_REPORTED = f'max by ({_TASK}) (\n    push_time_seconds{{task!=""}}\n    or {_FILE}\n  )'
# The report of the run has told of it.
_LOST = 'max by (query, origin, namespace) (statemaint_last_run_failed{cause="task"}) > 0'
_SILENT = (
    "{{ range printf \"max by (task) (statemaint_task_state{query=%q,state='working'})\" "
    "$labels.query | query }}{{ .Labels.task }} {{ end }}"
)
# Where the links lead; the chart puts the addresses of Grafana and Airflow before them.
_BOARD = "/d/statemaint-query?var-query={{ $labels.query }}"
_DAGS = (
    '/dags/{{ with printf "statemaint_query_info{query=%q}" $labels.query | query }}'
    '{{ . | first | label "dag" }}{{ end }}'
)

ALERTS = (
    Alert(
        "StatemaintHalted", _HALTED, CRITICAL,
        f"{_QUERY}: {{{{ $value }}}} stores are halted",
        "Damage was found. Nothing is written or deleted in these stores until it is repaired, and "
        "a restart of the query may fail; its other stores are maintained. Findings: "
        f"{_CODES}. Run statemaint doctor on the checkpoint.",
    ),
    Alert(
        "StatemaintPlanFailed", f"{_PLAN}\nunless on (query) {_HALTED}", CRITICAL,
        f"{_QUERY}: maintenance cannot be planned",
        f"The last run failed before it saw any store; nothing is maintained. The log of the task "
        f"plan of {_DAG} says why: a configuration or a checkpoint that cannot be read.",
    ),
    Alert(
        "StatemaintRunFailed", f"{_RUN}\nunless on (query) {_HALTED}\nunless on (query) {_PLAN}",
        WARNING,
        f"{_QUERY}: the last run failed",
        "The storage failed, or a task gave no report. Tasks with storage errors: "
        '{{ range printf "statemaint_last_run_storage_errors{query=%q}" $labels.query | query }}'
        f"{{{{ .Value }}}} {{{{ end }}}}. The log of the failed task of {_DAG} says more.",
        "10m",
    ),
    Alert(
        "StatemaintTwoMaintainers", _LEASE, WARNING,
        f"{_QUERY}: two maintainers compete for the lease",
        "The last run gave up because another run holds the lease, or took it over. Two DAGs, or a "
        "DAG and a CronJob, maintain the same checkpoint: stop one of them. statemaint runs lists "
        "both.",
    ),
    Alert(
        "StatemaintLeaseStale",
        f"time() - ({_max('lease_held_timestamp_seconds')} > 0) > 3600", WARNING,
        f"{_QUERY}: a run has waited {_AGE} for the lease of another",
        "A run that was killed loses its lease by itself within minutes. One that lives and does "
        "not end keeps it: the file with the highest number in _statemaint/lease says whose it is.",
    ),
    Alert(
        "StatemaintStale",
        f"time() - {_max('last_run_timestamp_seconds')} > on (query) (\n  {_PATIENCE}\n)",
        WARNING,
        f"{_QUERY}: no run has ended for {_AGE}",
        f"More than two runs are missing by the query's own schedule{_INTERVAL}. Is {_DAG} paused, "
        "waiting for a worker, or running without end?",
        "5m",
    ),
    Alert(
        "StatemaintRunStalled",
        "max by (query, origin, namespace) (\n"
        f'  max by (query, origin, namespace, task) (statemaint_task_state{{state="working"}})\n'
        f"  * on ({_TASK}) group_left () (time() - {_REPORTED}) > 600\n"
        ")\n"
        f"unless on (query, origin, namespace) {_LOST}",
        WARNING,
        f"{_QUERY}: a task at work has not reported for {_AGE}",
        f"Tasks: {_SILENT}. A task reports several times a minute: it was killed and not tried "
        f"again, its worker is lost, or it cannot reach the Pushgateway. Its log in {_DAG} says "
        "more; the next run continues its work.",
    ),
    Alert(
        "StatemaintChainTooLong", f"{_LONG}\nunless on (query) {_HALTED}", WARNING,
        f"{_QUERY}: a restart replays {{{{ $value }}}} deltas in one store",
        f"Due snapshots that are not written: {_WITHHELD}. Without any, runs do not reach this "
        "store, their limits are too low, or min_deltas_for_snapshot is too high. The dashboard of "
        "the query names the worst partitions.",
        "30m",
    ),
    Alert(
        "StatemaintRestartTooSlow",
        f"{_max('restart_seconds')} > 300\nunless on (query) {_HALTED}\nunless on (query) {_LONG}",
        WARNING,
        f"{_QUERY}: a restart takes about {_AGE} to load its state",
        "The chains are short, so the state itself is large in one partition. More partitions, or "
        "RocksDB, make a restart faster; maintenance cannot.",
        "30m",
    ),
    Alert(
        "StatemaintSnapshotLag",
        f"{_max('snapshot_lag_versions')} > 300\nunless on (query) {_HALTED}\n"
        f"unless on (query) {_LONG}",
        WARNING,
        f"{_QUERY}: the newest snapshot is {{{{ $value }}}} versions old",
        "Batches are much more frequent than runs: schedule maintenance more often.",
        "30m",
    ),
    Alert(
        "StatemaintVerifyFailed",
        f"{_max('last_verify_failed')} > 0\nunless on (query) {_HALTED}", CRITICAL,
        f"{_QUERY}: the last verification found damage",
        "A version that must load does not, although the last run halted no store. The log of the "
        "verification lists each finding; statemaint doctor says what a restart would do.",
    ),
    Alert(
        "StatemaintVerifyOverdue",
        f"time() - {_max('last_verify_timestamp_seconds')} > 1209600", WARNING,
        f"{_QUERY}: not verified for {_AGE}",
        "The query was verified before, and not for two weeks. Trigger statemaint_verify.",
    ),
    Alert(
        "StatemaintForeignMaintainer",
        _max('findings{code="FOREIGN_MAINTAINER"}') + " > 0", WARNING,
        f"{_QUERY}: its executors maintain the state too",
        "Snapshots appear that statemaint did not write. The runbook lists the settings of Spark "
        "to change.",
        "1h",
    ),
    Alert(
        "StatemaintForeignDeletions",
        _max('findings{code="PURGED_BY_SPARK"}') + " > 0", WARNING,
        f"{_QUERY}: {{{{ $value }}}} versions were deleted by another hand",
        "Files are gone that statemaint did not delete. More than one or two versions point to a "
        "lifecycle rule of the bucket or a clean-up script.",
        "1h",
    ),
    Alert(
        "StatemaintTrashGrowing",
        f"{_max('trash_bytes')} > {_max('store_bytes')}\n"
        f"  and {_max('trash_bytes')} > {_max('trash_bytes offset 1d')}",
        WARNING,
        f"{_QUERY}: the trash holds {{{{ humanize1024 $value }}}}B, more than the state",
        "It grew within a day. trash_for is long for the amount that is deleted, or a damaged "
        "store keeps the trash from being emptied.",
        "1h",
    ),
    Alert(
        "StatemaintPushLosses",
        "max by (query) (increase(statemaint_push_losses_total[1d])) > 2", WARNING,
        f'{_QUERY}: {{{{ $value | printf "%.0f" }}}} pushes of metrics were lost in a day',
        "The Pushgateway answered too late, refused, or could not be reached; the log of the task "
        "report has the reason. Maintenance itself is not affected.",
    ),
    Alert(
        "StatemaintUnreadable",
        f"{_max('exporter_read_failed')} > 0", WARNING,
        f"{_QUERY}: the exporter cannot read its record",
        "Its metrics are those of the last reading, and disappear after fifteen minutes. The log "
        "of the exporter says why: credentials, network, or an address that is wrong.",
        "15m",
    ),
    Alert(
        "StatemaintSourceDown", _SOURCES, CRITICAL,
        "{{ $labels.job }} at {{ $labels.instance }} does not answer",
        "The Pushgateway or the exporter is down: all other alerts of statemaint are blind until "
        "it answers. Maintenance itself goes on.",
        "5m", of_query=False,
    ),
    Alert(
        "StatemaintMetricsAbsent",
        f"absent(statemaint_last_run_timestamp_seconds)\nunless on () ({_SOURCES})", CRITICAL,
        "There are no metrics of statemaint at all",
        "Nothing is scraped, or the Pushgateway has restarted empty and no query has run since. "
        "All other alerts of statemaint are blind.",
        "15m", of_query=False,
    ),
)  # fmt: skip


def render() -> str:
    """Returns the text of the rules file, the same text every time."""
    return _HEAD + "\n".join(_rule(alert) for alert in ALERTS)


def _rule(alert: Alert) -> str:
    expr = "\n".join(f"          {line}" for line in alert.expr.splitlines())
    texts = {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": f"docs/runbook.md#{alert.name.lower()}",
        **({"dashboard_url": _BOARD, "dag_url": _DAGS} if alert.of_query else _OF_ALL),
    }
    lines = [
        f"      - alert: {alert.name}",
        "        expr: |-",
        expr,
        f"        for: {alert.hold}",
        "        labels:",
        f"          severity: {alert.severity}",
        "        annotations:",
        *(f"          {key}: {_quoted(text)}" for key, text in texts.items()),
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    """Writes the rules into the chart."""
    TARGET.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
