"""The contents of small files that seldom change, remembered by their MD5: a cache of reads.

    _statemaint/remembered.zlib     compressed: a line of JSON, {"sizes": [...]}, then the contents

S3's tag of an object that was uploaded in one request is the MD5 of its content, unless a key of
KMS or of the client encrypts it. There a listing shows what each commit and each attestation holds,
and a file whose content is known is not read again. A content is never taken on trust: its own MD5
has to be the tag that is listed now. A cache that is missing, damaged, old or of another checkpoint
therefore costs requests and changes nothing else.
"""

import json
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from hashlib import md5
from itertools import accumulate, pairwise
from threading import Lock

from statemaint.errors import CodecError, NotFoundError, StorageError
from statemaint.listing import Entry
from statemaint.records.attestations import ATTESTATIONS
from statemaint.storage import ReadOnly, Storage
from statemaint.workers import in_order

REMEMBERED = "_statemaint/remembered.zlib"
_MD5 = re.compile(r"[0-9a-f]{32}")
_SMALL = re.compile(
    r"(commits|offsets)/[0-9]+|_statemaint/attestations/.*"
    r"|state/[0-9]+/(_metadata|_stateSchema|0(/[^/]+)?/_metadata)/.*"
)
# Of one content, and of all together. Unique ids make large commits, neglect large attestations.
_MOST, _MOST_BYTES = 1 << 20, 1 << 24
# With fewer new contents than this, writing the cache costs more than reading them again.
_WORTH_IT = 3


class Remembering(ReadOnly):
    """A storage that is only read, and reads no small file whose content it knows.

    Threads may share it. Where tags are no MD5 it reads everything, and asks for no cache.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._tags: dict[str, str] = {}
        self._contents: dict[str, bytes] | None = None
        self._stored: AbstractSet[str] = frozenset()
        self._used: dict[str, str] = {}
        self._lock = Lock()

    def list(self, prefix: str) -> Iterator[Entry]:
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        self._tags = {it: tag for it, tag in self._tags.items() if not it.startswith(folder)}
        for entry in self._storage.list(prefix):
            small = _SMALL.fullmatch(entry.path) and entry.size <= _MOST
            if small and entry.tag and _MD5.fullmatch(entry.tag):
                self._tags[entry.path] = entry.tag
            yield entry

    def read(self, path: str) -> bytes:
        """Returns a file's whole content, as it was listed if that is known."""
        if not (tag := self._tags.get(path)):
            return self._storage.read(path)
        if (content := self._known.get(tag)) is None:
            content = self._storage.read(path)
            if _digest(content) != tag:  # not an MD5, or replaced since it was listed
                return content
            self._known[tag] = content
        self._used[path] = tag
        return content

    def note(self, path: str, content: bytes) -> None:
        if self._used and len(content) <= _MOST:  # else tags are no MD5 here
            self._used[path] = tag = _digest(content)
            self._known[tag] = content

    def catch_up(self) -> None:
        """Reads what other processes have written since the cache was."""
        for folder in ("commits", ATTESTATIONS):
            entries = [entry for entry in self.list(folder) if entry.path in self._tags]
            self._try(entries[-1:])
            if self._used:  # else tags are no MD5 here
                self._try(entries)

    def _try(self, entries: Iterable[Entry]) -> None:
        def read(path: str) -> None:
            with suppress(NotFoundError, CodecError):  # purged since it was listed
                self.read(path)

        jobs = (partial(read, entry.path) for entry in entries)
        deque(in_order(jobs, threads=self.parallel), maxlen=0)

    def cache(self) -> bytes | None:
        used, listed = {*self._used.values()}, {*self._tags.values()}
        if len(used - self._stored) < _WORTH_IT:
            return None
        return render_remembered(self._known[tag] for tag in used | (listed & self._stored))

    @property
    def _known(self) -> dict[str, bytes]:
        """Returns the known contents by their MD5, with those of the cache."""
        with self._lock:
            if self._contents is None:
                contents: list[bytes] = []
                with suppress(StorageError, CodecError):
                    contents = parse_remembered(self._storage.read(REMEMBERED))
                self._contents = {_digest(content): content for content in contents}
                self._stored = frozenset(self._contents)
            return self._contents


def recalling(storage: Storage) -> Remembering:
    """Returns a storage that remembers what it has read: the given one, if it does."""
    return storage if isinstance(storage, Remembering) else Remembering(storage)


def render_remembered(contents: Iterable[bytes]) -> bytes:
    """Returns a cache of contents: as many as it may have, the smallest first."""
    ordered = sorted(contents, key=lambda content: (len(content), content))
    sizes = accumulate(len(content) for content in ordered)
    kept = [content for content, size in zip(ordered, sizes, strict=True) if size <= _MOST_BYTES]
    head = json.dumps({"sizes": [len(content) for content in kept]}).encode()
    return zlib.compress(head + b"\n" + b"".join(kept))


def parse_remembered(stored: bytes) -> list[bytes]:
    """Returns the contents of a cache; none if it is not one of ours, or is damaged."""
    try:
        unpacking = zlib.decompressobj()
        head, _, rest = unpacking.decompress(stored, 2 * _MOST_BYTES).partition(b"\n")
        ends = [0, *accumulate(json.loads(head)["sizes"])]
        return [rest[start:end] for start, end in pairwise(ends)]
    except (zlib.error, ValueError, KeyError, TypeError, RecursionError):
        return []


def _digest(content: bytes) -> str:
    return md5(content, usedforsecurity=False).hexdigest()
