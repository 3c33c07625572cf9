"""Lines of text for stdout that must wait for other output before them."""

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

from statemaint.fold.temporary import temporary_directory

# A spool that is larger than this is a file in the temporary directory.
_HELD = 256 * 1024


class Spool:
    """Lines in order; a large number is held in a temporary file.

    Attributes:
        lines: the number of lines.
    """

    def __init__(self) -> None:
        """Begins without lines."""
        self._file = SpooledTemporaryFile(_HELD, "w+", encoding="utf-8", newline="\n")  # noqa: SIM115
        self.lines = 0

    def __del__(self) -> None:
        """Closes the file of lines that were never printed."""
        self._file.close()

    def append(self, line: str) -> None:
        """Adds a line, which contains no line break.

        Raises:
            StorageError: when the temporary directory cannot take it.
        """
        with temporary_directory():
            self._file.write(line + "\n")
        self.lines += 1

    def __iter__(self) -> Iterator[str]:
        """Yields the lines, once; no lines may follow.

        Raises:
            StorageError: when the temporary directory cannot be read.
        """
        with temporary_directory(), self._file:
            self._file.seek(0)
            for line in self._file:
                yield line[:-1]
