"""Moves many objects: a copy of each, made by the server, then deletions in pages.

A copy is made only from the listed version of its object: the condition is the ETag of the listing,
so that no HEAD precedes it. It keeps metadata and tags, and loses the ACL, as a single move does.

The server gives a copy the bucket's encryption unless the request names one, and no listing shows
an object's own. It is read from the oldest and the newest object of a page: all objects between two
times with the same encryption have it too, unless it was changed and changed back meanwhile. This
is remembered, so that further pages and stores need none of it again. If the two differ, each
object of the page is asked.

Whether a new name is free is not asked either. The caller is the only one that creates objects
there, and knows of all that it has created.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import BoundedSemaphore, Lock

from statemaint.errors import NotFoundError, StorageError, Superseded
from statemaint.listing import Entry
from statemaint.storage.s3.bucket import Bucket
from statemaint.storage.s3.client import CONNECTIONS
from statemaint.storage.s3.copy import copy, copy_whole
from statemaint.storage.s3.delete import delete_all
from statemaint.storage.s3.errors import S3Error
from statemaint.storage.s3.put import PRECONDITION_FAILED, head
from statemaint.storage.s3.settings import Params, encryption_of, uses_key
from statemaint.workers import in_order

_PAGE = 200  # as many as are deleted in one request
_Failure = StorageError | Superseded


class Moves:
    """The moves in one bucket; threads may share it."""

    def __init__(self, bucket: Bucket, sleep: Callable[[float], None]) -> None:
        self._bucket, self._sleep = bucket, sleep
        self._slots = BoundedSemaphore(CONNECTIONS)
        self._lock = Lock()
        self._known: tuple[float, float, Params] | None = None

    def move_all(
        self,
        moves: Sequence[tuple[Entry, str]],
        *,
        before: Callable[[], object],
        after: Callable[[Entry], object],
    ) -> None:
        """Moves objects page by page; the copies of a page are made several at a time.

        After a failure no further copy is made, and the objects that were copied are deleted under
        their old names; after a `Superseded` none is, since the query may have been rewound.

        Raises:
            Superseded: when an object is not the listed one.
            S3Error: when an object is not copied or not deleted.
        """
        for start in range(0, len(moves), _PAGE):
            page = moves[start : start + _PAGE]
            self._move_page(page, before)
            for entry, _ in page:
                after(entry)

    def _move_page(self, moves: Sequence[tuple[Entry, str]], before: Callable[[], object]) -> None:
        encryption = self._encryption([entry for entry, _ in moves])
        failures: list[_Failure] = []
        jobs = (partial(self._copied, *move, encryption, failures) for move in moves)
        copied = [path for path in in_order(jobs, threads=self._bucket.options.threads) if path]
        replaced = next((one for one in failures if isinstance(one, Superseded)), None)
        if replaced:
            raise replaced
        if failures:
            with suppress(StorageError):  # the first failure is the one to report
                delete_all(self._bucket, copied, sleep=self._sleep, before=before)
            raise failures[0]
        delete_all(self._bucket, copied, sleep=self._sleep, before=before)

    def _copied(
        self, entry: Entry, to: str, encryption: Params | None, failures: list[_Failure]
    ) -> str | None:
        """Copies an object; returns its path if there is a copy now, and adds to the failures."""
        with self._slots:
            try:
                if not failures:
                    self._copy(entry, to, encryption)
                    return entry.path
            except NotFoundError:
                pass
            except (StorageError, Superseded) as error:
                failures.append(error)
        return None

    def _copy(self, entry: Entry, to: str, encryption: Params | None) -> None:
        bucket, path, tag = self._bucket, entry.path, entry.tag
        try:
            if tag is None or encryption is None or entry.size > bucket.options.copy_limit:
                made = None
            else:
                made = copy_whole(bucket, path, to, f'"{tag}"', encryption)
            if made is not None and _is_same(made.strip('"'), tag or "", encryption or {}):
                return
            original = head(bucket, path)
            if tag and original["ETag"].strip('"') != tag:
                raise _replaced(entry)
            if made is None:
                copy(bucket, path, to, original, None)
            else:
                own = encryption_of(original).encryption
                copy_whole(bucket, path, to, original["ETag"], own)
        except S3Error as error:
            if error.status != PRECONDITION_FAILED:
                raise
            raise _replaced(entry) from error

    # -- encryption

    def _encryption(self, entries: Sequence[Entry]) -> Params | None:
        """Returns the encryption of all objects of a page; `None` if they may have different ones.

        Only objects older or newer than those known so far are asked for theirs.
        """
        if any(entry.modified is None for entry in entries):
            return None
        with self._lock:
            for entry in (min(entries, key=_time), max(entries, key=_time)):
                if not self._learned(entry):
                    return None
            return self._known[2] if self._known else None

    def _learned(self, entry: Entry) -> bool:
        """Extends the known times to an object's, and returns whether it has their encryption."""
        time, known = _time(entry), self._known
        if known and known[0] <= time <= known[1]:
            return True
        try:
            encryption = encryption_of(head(self._bucket, entry.path)).encryption
        except NotFoundError:
            return False
        first, last, shared = known or (time, time, encryption)
        if encryption == shared:
            self._known = min(first, time), max(last, time), shared
        return encryption == shared


def _is_same(made: str, listed: str, encryption: Params) -> bool:
    """Returns whether a copy is known to be of the listed object, with the object's encryption.

    Without a key in the encryption, an ETag is the MD5 of the content. If the copy has another one,
    the original is encrypted with a key after all, or the server ignores the condition. An ETag of
    an upload in parts, or with a key, shows nothing; then the server's condition has to suffice.
    """
    return made in ("", listed) or "-" in listed or uses_key(encryption)


def _time(entry: Entry) -> float:
    return entry.modified or 0.0


def _replaced(entry: Entry) -> Superseded:
    return Superseded(entry.path, "was replaced since it was listed")
