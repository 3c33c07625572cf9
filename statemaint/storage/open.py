"""From an address to a storage."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from statemaint.errors import ConfigError, UnsupportedError
from statemaint.storage.base import Storage
from statemaint.storage.local import LocalStorage


def open_storage(uri: str) -> Storage:
    """Returns the storage that an address names: a path, or `file:` with one.

    Raises:
        ConfigError: when the address is empty or names another machine's files.
        UnsupportedError: for a scheme that this version cannot reach.
    """
    parts = urlsplit(uri)
    if not uri.strip():
        raise ConfigError("the checkpoint's address is empty")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(f"{uri}: a file: address names no host; write file:///path")
        return LocalStorage(Path(unquote(parts.path)).absolute())
    if parts.scheme and "://" in uri:
        raise UnsupportedError(uri, f"storage {parts.scheme!r}", "local disk (a path, or file:)")
    return LocalStorage(Path(uri).absolute())
