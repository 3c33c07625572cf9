"""Addresses with a secret in them, which would appear in every log, plan and page."""

import re
from urllib.parse import urlsplit

from statemaint.errors import ConfigError

# In these schemes, the text before the @ is part of the place: a container, a bucket, a user name.
_NAMED = frozenset("abfs abfss wasb wasbs hdfs webhdfs swebhdfs".split())  # noqa: SIM905
_TOKEN = re.compile(r"[?&](?:sig|token|access_?key|secret\w*|password|delegation)=", re.IGNORECASE)


def has_secret(address: str) -> bool:
    """Returns whether an address contains a password, a key or a token."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "@" in address
    scheme = parts.scheme.rpartition("+")[2]
    user, separator, _ = parts.netloc.rpartition("@")
    named = scheme in _NAMED and ":" not in user
    token = "://" in address and _TOKEN.search(address)
    return (bool(separator) and not named) or bool(token)


def must_have_no_secret(address: str, instead: str) -> None:
    """Checks that an address can be shown; `instead` names the place where a secret belongs.

    Raises:
        ConfigError: when the address contains a secret; the error does not show the address.
    """
    if has_secret(address):
        raise ConfigError(f"the address has a secret in it, which would be shown; {instead}")
