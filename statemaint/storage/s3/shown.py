"""What the answers to reads show of objects beside their content, so that no HEAD asks for it."""

import threading
from collections.abc import Mapping
from typing import Any

# Of the objects that were read last. A fold reads the newest change shortly before its snapshot is
# written with the settings of that change.
_MOST = 4096
_SSE = "x-amz-server-side-encryption"
# boto3's names of what is kept, and those of the headers.
_KEPT = {
    "ServerSideEncryption": _SSE,
    "SSEKMSKeyId": f"{_SSE}-aws-kms-key-id",
    "BucketKeyEnabled": f"{_SSE}-bucket-key-enabled",
    "TagCount": "x-amz-tagging-count",
}


def shown_by(headers: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns what headers, by names in lower case, show of an object's settings."""
    shown: dict[str, Any] = {name: headers[one] for name, one in _KEPT.items() if one in headers}
    if "BucketKeyEnabled" in shown:
        shown["BucketKeyEnabled"] = shown["BucketKeyEnabled"].lower() == "true"
    return shown


class LastShown:
    """The settings of objects that the last answers have shown; threads may share it.

    An answer has the number of an object's tags if there are any, if the server counts them, and if
    the caller may read them.

    Attributes:
        counts_tags: whether an answer has shown that this server counts tags.
    """

    def __init__(self) -> None:
        self.counts_tags = False
        self._lock = threading.Lock()
        self._shown: dict[str, Mapping[str, Any]] = {}

    def note(self, path: str, answer: Mapping[str, Any]) -> None:
        """Notes what an answer, by boto3's names, has shown of an object."""
        shown = {name: answer[name] for name in _KEPT if answer.get(name)}
        if "TagCount" in shown:
            self.counts_tags = True
        with self._lock:
            self._shown.pop(path, None)
            self._shown[path] = shown
            if len(self._shown) > _MOST:
                del self._shown[next(iter(self._shown))]

    def of(self, path: str) -> Mapping[str, Any] | None:
        """Returns what the last read of an object has shown; `None` if it is not known."""
        return self._shown.get(path)
