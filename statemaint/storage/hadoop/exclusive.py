"""Whether a file system lets exactly one of several writers create a file: tried on probe files.

A rename that refuses an existing name in the same step needs no trial (`HadoopFiles`). Elsewhere
our own records are created under their final names, by `create` without overwriting, and a trial
shows how two writers of one file end:

* Both open it, and the second is refused when it closes the file: the file system decides when the
  content gets its name, so one writer wins.
* The second is refused when it opens the file: it may have looked first and created after, with a
  moment in between that no trial can show. Only a setting allows such a file system.
* Both succeed: never allowed.
"""

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Barrier
from typing import Any
from uuid import uuid4

from statemaint.errors import AlreadyExistsError, StatemaintError, StorageError
from statemaint.storage.address import EXCLUSIVE_ON
from statemaint.storage.base import PROBES
from statemaint.storage.hadoop.files import HadoopFiles
from statemaint.storage.hadoop.jvm import translated

_MODE = 0o600
_RACES = 2
_ELSEWHERE = "keep the checkpoint on HDFS, `s3://`, or `abfss://` with a hierarchical namespace"


def obstacle_of(files: HadoopFiles, read: Callable[[str], bytes], allowed: Collection[str]) -> str:
    """Returns why two writers may both create a file; empty if one of them is always refused."""
    # The folder for probes must exist. The operator's setting names the schemes that are allowed.
    scheme = files.scheme
    late, single = _two_writers(files, read)
    if not single or not all(_race(files, read) for _ in range(_RACES)):
        return f"of two writers of one file on {scheme!r} both succeeded; {_ELSEWHERE}"
    if late or scheme in allowed:
        return ""
    return (
        f"{scheme!r} refuses the second writer of a file when it opens the file, and no trial "
        "shows whether it looks and creates in one step; if its maker promises that, set "
        f"{EXCLUSIVE_ON}={scheme}, else {_ELSEWHERE}"
    )


def _two_writers(files: HadoopFiles, read: Callable[[str], bytes]) -> tuple[bool, bool]:
    """Returns whether the second of two writers was refused only at its end, and at all."""
    with _probe(files) as path:
        first = files.open_new(path, _MODE)
        try:
            second = files.open_new(path, _MODE)
        except AlreadyExistsError:
            _end(files, first, path, "first")
            return False, read(path) == b"first"
        _end(files, first, path, "first")
        refused = not _ends(files, second, path, "second")
        with _probe(files) as alone:  # the file system has not failed meanwhile
            _end(files, files.open_new(alone, _MODE), alone, "alone")
        return True, refused and read(path) == b"first"


def _race(files: HadoopFiles, read: Callable[[str], bytes]) -> bool:
    together = Barrier(2)

    def write(path: str, word: str) -> str:
        together.wait()
        try:
            stream = files.open_new(path, _MODE)
        except AlreadyExistsError:
            return ""
        return word if _ends(files, stream, path, word) else ""

    with _probe(files) as path:
        with ThreadPoolExecutor(2) as pool:
            words = pool.map(partial(write, path), ("first", "second"))
            winners = [word for word in words if word]
        return len(winners) < 2 and all(read(path) == word.encode() for word in winners)  # noqa: PLR2004


def _ends(files: HadoopFiles, stream: Any, path: str, word: str) -> bool:
    try:
        _end(files, stream, path, word)
    except StorageError:
        return False
    return True


def _end(files: HadoopFiles, stream: Any, path: str, word: str) -> None:
    try:
        with translated(files.jvm, path):
            stream.writeBytes(word)
            stream.close()
    except StatemaintError:
        with suppress(*files.jvm.errors):
            stream.close()
        raise


@contextmanager
def _probe(files: HadoopFiles) -> Iterator[str]:
    path = f"{PROBES}/{uuid4()}"
    try:
        yield path
    finally:
        files.delete(path)
