"""OpenLineage: which checkpoints a task has read and written, and what it has deleted there.

Airflow's OpenLineage provider package asks a task that has succeeded; without the package nothing
of this runs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_S3 = ("s3a", "s3n")
# Of a run of maintenance, of a gate that repaired, of a repair or a rollback.
_WRITES = ("maintained", "repaired", "removed", "written")
# The fields of the run facet, and of a run's report.
_COUNTS = {
    "snapshotsWritten": "snapshots",
    "bytesWritten": "bytes_written",
    "filesDeleted": "files",
    "bytesDeleted": "bytes",
}
_FACET = "statemaint"


class TracedOperator:
    """The part of an operator that remembers its result, for its OpenLineage events."""

    result: Any = None

    def traced(self, result: Any) -> Any:
        self.result = result
        return result

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Returns the `OperatorLineage` of the task, for Airflow's OpenLineage listener."""
        from airflow.providers.openlineage.extractors import (  # noqa: PLC0415 -- an extra
            OperatorLineage,
        )
        from openlineage.client.event_v2 import (  # noqa: PLC0415 -- as above
            InputDataset,
            OutputDataset,
        )
        from openlineage.client.facet_v2 import (  # noqa: PLC0415 -- as above
            RunFacet,
            output_statistics_output_dataset,
        )

        del task_instance
        reports = reports_of(self.result)
        written = [(address, report) for report in reports for address in outputs_of(report)]
        totals = RunFacet().with_additional_properties(**totals_of(reports))
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        return OperatorLineage(
            inputs=[InputDataset(*dataset_name(report["checkpoint"])) for report in reports],
            outputs=[
                OutputDataset(
                    *dataset_name(address),
                    outputFacets={
                        "outputStatistics": statistics(
                            size=counts_of(report).get("bytesWritten"),
                            fileCount=counts_of(report).get("snapshotsWritten"),
                        )
                    },
                )
                for address, report in written
            ],
            run_facets={_FACET: totals} if reports else {},
        )


def reports_of(result: object) -> list[Mapping[str, Any]]:
    """Returns the reports in a task's result: one, or one for each query by its name."""
    if not isinstance(result, Mapping):
        return []
    reports = [result] if "checkpoint" in result else result.values()
    return [each for each in reports if isinstance(each, Mapping) and "checkpoint" in each]


def outputs_of(report: Mapping[str, Any]) -> Iterator[str]:
    """Yields the addresses of what a report has written: its checkpoint, or a savepoint."""
    if any(report.get(key) for key in _WRITES):
        yield report["checkpoint"]
    if place := report.get("savepoint"):
        yield place


def dataset_name(address: str) -> tuple[str, str]:
    """Returns the namespace and the name of an address, as OpenLineage spells them."""
    scheme, remote, rest = address.partition("://")
    host, _, path = rest.partition("/")
    if not remote or scheme == "file":
        return "file", f"/{path}" if remote else address
    namespace = f"{'s3' if scheme in _S3 else scheme}://{host}"
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


def totals_of(reports: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for report in reports:
        totals.update(counts_of(report))
    return dict(totals)
