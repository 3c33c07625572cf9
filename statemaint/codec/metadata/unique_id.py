"""The ids that name the files of a version in checkpoint structure V2: `<version>_<id>.changelog`.

Spark takes them from `UUID.randomUUID()`. They become parts of paths, so nothing else is accepted.
"""

import re
from collections.abc import Sequence

from statemaint.errors import CodecError

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_IDS = re.compile(rf"(?:{_ID.pattern}\n)*")


def are_unique_ids(texts: Sequence[str]) -> bool:
    """Returns whether each of some texts can be part of a file name; checks them all together."""
    lines = "\n".join((*texts, ""))
    return lines.count("\n") == len(texts) and _IDS.fullmatch(lines) is not None


def check_unique_id(value: object, offset: int) -> str:
    """Returns an id that can be part of a file name."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise CodecError(f"unique id {str(value)[:80]!r} is not valid", offset=offset)
    return value
