"""The provider and the codec of the state, recognized from its files if the offset log is lost."""

from collections.abc import Iterable, Mapping, Sequence

from statemaint.codec.compression.base import Compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.checkpoint import MAINTAINED, Provider
from statemaint.model.files import Delta, Snapshot, SstFile
from statemaint.scan.layout import Layout, sort_out
from statemaint.scan.query_logs import codec_of, provider_of
from statemaint.storage import Storage

_TRIED = 3


def recognized(
    storage: Storage, conf: Mapping[str, str], entries: Iterable[Entry]
) -> tuple[Layout, str]:
    """Returns the layout of the state and its codec, by the settings of the log or by the files."""
    pinned, codec, listed = (
        provider_of(storage.root, conf),
        codec_of(storage.root, conf),
        [*entries],
    )
    layout = sort_out(listed, provider_in(listed) if pinned is Provider.UNKNOWN else pinned)
    return layout, codec if conf else codec_in(storage, layout)


def provider_in(entries: Sequence[Entry]) -> Provider:
    """Returns the provider whose files a listing has; `UNKNOWN` if it has those of several.

    Without any state file it is Spark's default, which has nothing to read either.
    """
    there = [one for one in MAINTAINED if _has_files_of(one, entries)]
    if len(there) > 1:
        return Provider.UNKNOWN
    return there[0] if there else Provider.HDFS_BACKED


def _has_files_of(provider: Provider, entries: Sequence[Entry]) -> bool:
    stores = sort_out(entries, provider).stores.values()
    return any(isinstance(file, Delta | Snapshot | SstFile) for files in stores for file in files)


def codec_in(storage: Storage, layout: Layout) -> str:
    """Returns the only codec that decodes a change; Spark's default if no change shows it."""
    files = (file for files in layout.stores.values() for file in files)
    changes = (file.entry for file in files if isinstance(file, Delta) and file.entry.size)
    for entry in sorted(changes, key=lambda one: (one.size, one.path))[:_TRIED]:
        fitting = [one.name for one in COMPRESSIONS.values() if _begins(storage, entry, one)]
        if len(fitting) == 1:
            return fitting[0]
    return "lz4"


def _begins(storage: Storage, entry: Entry, compression: Compression) -> bool:
    """Returns whether a file begins with a block of a compression."""
    try:
        with storage.open(entry.path) as stream:
            return next(compression.blocks(stream), None) is not None
    except (CodecError, NotFoundError):
        return False
