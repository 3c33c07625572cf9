"""The files below `_statemaint/`: their names and formats, read and written in one place.

Nothing here touches a file of the query. `execute` and `maintain` decide what is recorded, and
what is deleted when.
"""

from statemaint.records.attestations import (
    ATTESTATIONS,
    attestation_path,
    parse_attestations,
    render_attestations,
)
from statemaint.records.claims import Claim, Holder, newest
from statemaint.records.remembered import REMEMBERED, Remembering, recalling
from statemaint.records.trashed import (
    ExpiredTrash,
    bytes_in_trash,
    forget_trashed,
    index_trash,
    size_in_trash,
    size_of_trash,
    trashed_runs,
)
from statemaint.records.trashed import empty as empty_trash
from statemaint.records.trashed import expired as expired_trash

__all__ = [
    "ATTESTATIONS",
    "REMEMBERED",
    "Claim",
    "ExpiredTrash",
    "Holder",
    "Remembering",
    "attestation_path",
    "bytes_in_trash",
    "empty_trash",
    "expired_trash",
    "forget_trashed",
    "index_trash",
    "newest",
    "parse_attestations",
    "recalling",
    "render_attestations",
    "size_in_trash",
    "size_of_trash",
    "trashed_runs",
]
