"""OpenLineage: which checkpoints a task has read and written, and what it has deleted there.

Airflow's OpenLineage provider package asks a task that has succeeded; without it none of this runs.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from statemaint.queries.checks import BUCKETS

# Of a run of maintenance, of a gate that repaired, of a repair or a rollback.
_WRITES = ("maintained", "repaired", "removed", "written")
# The fields of the run facet, and of a run's report.
_COUNTS = {
    "snapshotsWritten": "snapshots",
    "bytesWritten": "bytes_written",
    "filesDeleted": "files",
    "bytesDeleted": "bytes",
}


class TracedOperator:
    """The part of an operator that remembers its result, for its OpenLineage events."""

    result: Any = None

    def traced(self, result: Any) -> Any:
        self.result = result
        return result

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Returns the `OperatorLineage` of the task, for Airflow's OpenLineage listener."""
        from airflow.providers.common.compat.openlineage import facet  # noqa: PLC0415 -- an extra
        from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415

        del task_instance
        reports, totals, outputs = reports_of(self.result), Counter[str](), []
        for report in reports:
            counts = counts_of(report)
            totals.update(counts)
            statistics = facet.OutputStatisticsOutputDatasetFacet(
                size=counts.get("bytesWritten"), fileCount=counts.get("snapshotsWritten")
            )
            for address in outputs_of(report):
                facets = {"outputStatistics": statistics}
                outputs.append(facet.OutputDataset(*dataset_name(address), outputFacets=facets))
        run = facet.RunFacet().with_additional_properties(**totals)
        return OperatorLineage(
            inputs=[facet.InputDataset(*dataset_name(report["checkpoint"])) for report in reports],
            outputs=outputs,
            run_facets={"statemaint": run} if reports else {},
        )


def reports_of(result: object) -> list[Mapping[str, Any]]:
    """Returns the reports in a task's result: one, or one for each query by its name."""
    results = result if isinstance(result, Mapping) else {}
    reports = [results] if "checkpoint" in results else results.values()
    return [each for each in reports if isinstance(each, Mapping) and "checkpoint" in each]


def outputs_of(report: Mapping[str, Any]) -> list[str]:
    """Returns the addresses of what a report has written: its checkpoint, or a savepoint."""
    if "savepoint" in report:
        return [report["savepoint"]]
    return [report["checkpoint"]] if any(map(report.get, _WRITES)) else []


def dataset_name(address: str) -> tuple[str, str]:
    """Returns the namespace and the name of an address, as OpenLineage spells them."""
    scheme, remote, rest = address.partition("://")
    host, _, path = rest.partition("/")
    if not remote or scheme == "file":
        return "file", f"/{path}" if remote else address
    namespace = f"{'s3' if scheme in BUCKETS else scheme}://{host}"
    return namespace, f"/{path}" if scheme == "hdfs" else path or "/"


def counts_of(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns the counts that a report has, under the names of the facets."""
    match report:
        case {"savepoint": _, "bytes": written}:
            return {"bytesWritten": written}
        case {"removed": removed, "written": snapshots}:
            return {"snapshotsWritten": len(snapshots), "filesDeleted": len(removed)}
        case _:
            return {name: report[key] for name, key in _COUNTS.items() if key in report}
