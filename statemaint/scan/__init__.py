"""Reading: from a storage to a `Checkpoint`. Nothing here decides or writes.

File names of a store are parsed here, by `model.files`; no later step handles them as raw strings.
"""

from statemaint.scan.handover import Handover, Recalling, Recorder, ScanPart
from statemaint.scan.identity import check_inside, check_links, must_be_checkpoint, must_be_of_query
from statemaint.scan.partitions import partition_counts
from statemaint.scan.proofs import crc32c_of, equal, fingerprint, is_same
from statemaint.scan.rocks import shared_paths
from statemaint.scan.rollbacks import interrupted_rollbacks, unfinished_rollbacks
from statemaint.scan.scanner import scan
from statemaint.scan.source_logs import ADVICE, SourceLog, missing_source_logs
from statemaint.scan.unread import is_of_one_store, unread

__all__ = [
    "ADVICE",
    "Handover",
    "Recalling",
    "Recorder",
    "ScanPart",
    "SourceLog",
    "check_inside",
    "check_links",
    "crc32c_of",
    "equal",
    "fingerprint",
    "interrupted_rollbacks",
    "is_of_one_store",
    "is_same",
    "missing_source_logs",
    "must_be_checkpoint",
    "must_be_of_query",
    "partition_counts",
    "scan",
    "shared_paths",
    "unfinished_rollbacks",
    "unread",
]
