"""The outcome of a task of a run, of Airflow or Spark, for the task that reports all of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from statemaint.errors import StatemaintError
from statemaint.maintain.bundles import Bundle
from statemaint.model.findings import FindingCode, damaged
from statemaint.report import Report
from statemaint.report.part import reasons, summary


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """The outcome of one bundle.

    Attributes:
        summary: as `report.part.summary` makes it; `None` if nothing was inspected.
        reason: why the task has failed; `None` if it has not.
        retry: whether another attempt could succeed.
    """

    label: str
    summary: Mapping[str, Any] | None = None
    reason: str | None = None
    retry: bool = False

    @classmethod
    def of_report(cls, bundle: Bundle, report: Report, *, every_unit: bool) -> "PartOutcome":
        """Returns the outcome of a bundle that was maintained; damage is a failure."""
        found = summary(report, bundle.label, bundle.target, every_unit=every_unit)
        if not damaged(report.findings):
            return cls(bundle.label, found)
        failed = [one for one in report.findings if one.code is FindingCode.STORAGE_FAILED]
        retry = any(not one.lasting for one in failed)
        return cls(bundle.label, found, reasons(report.findings), retry)

    @classmethod
    def of_error(cls, label: str, error: Exception) -> "PartOutcome":
        if isinstance(error, StatemaintError):
            return cls(label, None, f"{error.code}: {error}", not error.lasting)
        told = f"{FindingCode.FAULT.value}: {type(error).__name__}: {error}"
        return cls(label, None, " ".join(told.split()), retry=True)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
