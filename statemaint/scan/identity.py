"""Whether a storage holds a checkpoint, and that of the expected query; links and pins there."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from statemaint.codec.metadata import logs
from statemaint.errors import (
    CodecError,
    ConfigError,
    NotACheckpointError,
    NotFoundError,
    RefusedLinkError,
)
from statemaint.listing import Entry
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.pins import Pin
from statemaint.records.pins import MOST_SECONDS, read_pins
from statemaint.scan.query_logs import query_id
from statemaint.storage import OURS, Storage, outside_link, own_link
from statemaint.wording import counted

_DAYS = int(MOST_SECONDS // 86400)


def must_be_checkpoint(storage: Storage) -> None:
    """Raises `NotACheckpointError` for a storage that does not look like a checkpoint."""
    with suppress(NotFoundError, CodecError):
        if logs.parse_query_id(storage.read("metadata")):
            return
    if any(_has_files(storage, folder) for folder in ("offsets", "commits", "state")):
        return
    empty = (
        "it is empty or does not exist: a query that is started here begins with its first batch"
    )
    other = "it has neither offsets/ nor commits/ nor state/ nor the file metadata"
    raise NotACheckpointError(storage.root, other if _has_files(storage, "") else empty)


def must_be_of_query(storage: Storage, query: str, checkpoint: str) -> None:
    # The query and the checkpoint are those of a plan.
    held = query_id(storage, [], begun=False)
    if held != query:
        raise ConfigError(
            f"{storage.root}: holds {_query(held)}, but the plan is of {_query(query)} in "
            f"{checkpoint}; use a plan of this checkpoint"
        )


def _query(name: str) -> str:
    return f"query {name}" if name else "a query without an id"


def _has_files(storage: Storage, folder: str) -> bool:
    return any(True for _ in storage.list(folder))


# -- links among our own files, which stop every run (S24)


def link_findings(storage: Storage) -> Iterator[Finding]:
    links = storage.links(OURS)
    if links:
        more = f" (and {counted(len(links) - 1, 'more link')})" if len(links) > 1 else ""
        yield Finding(FindingCode.REFUSED_LINK, f"{own_link(links[0])}{more}", path=links[0])


def check_inside(entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.outside:
            raise outside_link(entry.path)


def check_links(storage: Storage) -> None:
    """Checks, before a run writes or deletes anything, that there are no links among our files."""
    for link in storage.links(OURS):
        raise own_link(link)


# -- pins: batches that stay loadable (S3)


def holding_pins(storage: Storage, now: float) -> tuple[Pin, ...]:
    """Returns the pins that hold; none for a link among our files, which halts every store."""
    try:
        return tuple(pin for pin in read_pins(storage) if pin.holds(now))
    except RefusedLinkError:
        return ()


def pin_findings(pins: Iterable[Pin]) -> Iterator[Finding]:
    for pin in pins:
        if pin.batch is None:
            detail = (
                f"{pin.path}: not a pin that this version of statemaint can read ({pin.by}), so it "
                f"counts as a pin of every batch, and no file of a version is deleted, until "
                f"{_DAYS} days after it was written. Delete it if nothing needs it"
            )
            yield Finding(FindingCode.UNREADABLE_PIN, detail, path=pin.path)
