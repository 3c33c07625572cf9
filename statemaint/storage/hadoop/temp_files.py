"""Files of this machine that are on their way to Hadoop."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from statemaint.storage.hadoop.errors import on_this_machine


@contextmanager
def temp_file(path: str) -> Iterator["tempfile._TemporaryFileWrapper[bytes]"]:
    """Yields a new file of this machine, for the file of a path, which is deleted in the end."""
    with on_this_machine(path):
        local = tempfile.NamedTemporaryFile(prefix="statemaint-")  # noqa: SIM115 -- below
    with local:
        yield local


def fill(
    local: "tempfile._TemporaryFileWrapper[bytes]", chunks: Iterable[bytes], path: str
) -> None:
    """Writes chunks to a file of this machine; errors name the path that it is for."""
    for chunk in chunks:
        with on_this_machine(path):
            local.write(chunk)
    with on_this_machine(path):
        local.flush()
