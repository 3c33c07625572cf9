"""Whether another attempt at the work of a task could succeed."""

import errno
import os

import pytest

from statemaint.errors import (
    ConfigError,
    DamagedError,
    IncompleteListingError,
    LeaseHeldError,
    LeaseLostError,
    RefusedLinkError,
    StatemaintError,
    StorageError,
)
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.report.task import BundleReport, Failure
from statemaint.storage.s3.errors import S3Error
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, refuse


def of_disk(number: int) -> StorageError:
    return StorageError.of_os("state/0/0", OSError(number, os.strerror(number)))


DENIED = S3Error("state", "access denied", reason="AccessDenied", status=403)
BUSY = S3Error("state", "too busy", reason="SlowDown", status=503)
LASTING = [of_disk(errno.EPERM), of_disk(errno.EACCES), of_disk(errno.EROFS), DENIED]
PASSING = [of_disk(errno.EIO), of_disk(errno.ENOSPC), of_disk(errno.ETIMEDOUT), BUSY]


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        *((error, False) for error in LASTING),
        *((error, True) for error in PASSING),
        (IncompleteListingError([of_disk(errno.EACCES)]), False),
        (IncompleteListingError([of_disk(errno.EACCES), of_disk(errno.EIO)]), True),
        (RefusedLinkError("state", "a link"), False),
        (ConfigError("no such thing"), False),
        (DamagedError("/c", "a delta is missing", code="BROKEN_CHAIN"), False),
        (DamagedError("/c", "state/0/0 is not listed", code="STORAGE_FAILED"), True),
        (LeaseHeldError("/c", "me", "run", 0.0), True),
        (LeaseLostError("/c", 1), True),
    ],
)
def test_only_what_may_pass_is_tried_again(error: StatemaintError, *, retry: bool) -> None:
    assert Failure.of(error).retry is retry


@pytest.mark.parametrize(
    ("error", "retry"),
    [*((error, False) for error in LASTING), *((error, True) for error in PASSING)],
)
def test_a_store_that_its_storage_refuses_is_tried_again_only_if_that_may_pass(
    error: StorageError, *, retry: bool
) -> None:
    storage = HookedStorage(before=refuse("write", "*.snapshot", error), clock=Clock())
    write_checkpoint(storage)
    report = maintain(storage, Policy(min_deltas_for_snapshot=5, grace=0))
    failure = BundleReport.of(report, "op 0 / part 0", 25, every_unit=False).failure
    assert failure is not None
    assert failure.reason.startswith("STORAGE_FAILED: ")
    assert failure.retry is retry
