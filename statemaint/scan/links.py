"""Links among our own files, which stop every run (S24)."""

from collections.abc import Iterable, Iterator

from statemaint.listing import Entry
from statemaint.model.findings import Finding, FindingCode
from statemaint.storage import OURS, Storage, outside_link, own_link
from statemaint.wording import counted


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
