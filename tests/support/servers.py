"""Servers that all tests of a folder share, and that end with the last of these.

A fixture of the session would leave them running beside all other tests. One of a package needs an
`__init__.py`, which would give the folder's modules the names of installed packages.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest

Server = TypeVar("Server")


class Servers:
    """What runs for the tests below a folder."""

    def __init__(self, folder: Path) -> None:
        """Begins with nothing.

        Args:
            folder: of the tests.
        """
        self._folder, self._stack = folder, ExitStack()
        self._running: dict[str, Any] = {}

    def get(self, name: str, start: Callable[[], AbstractContextManager[Server]]) -> Server:
        """Returns what runs by a name; it is started where nothing does."""
        if name not in self._running:
            self._running[name] = self._stack.enter_context(start())
        found: Server = self._running[name]
        return found

    def leave(self, following: pytest.Item | None) -> None:
        """Ends everything unless the test that follows lies below the folder, too."""
        if following is None or self._folder not in following.path.parents:
            self.end()

    def end(self) -> None:
        """Ends everything; the next test that needs something starts it again."""
        self._running.clear()
        self._stack.close()
