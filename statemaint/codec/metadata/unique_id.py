"""The ids that name the files of a version in checkpoint structure V2: `<version>_<id>.changelog`.

Spark takes them from `UUID.randomUUID()`. They become parts of paths, so nothing else is accepted.
"""

import re

from statemaint.errors import CodecError

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


def check_unique_id(found: object, offset: int) -> str:
    """Returns an id that can be part of a file name.

    Raises:
        CodecError: when it is not such a text.
    """
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise CodecError(f"unique id {str(found)[:80]!r} cannot be", offset=offset)
    return found
