"""Addresses with a secret in them, which would be in every log, plan and page that names them."""

import re
from urllib.parse import urlsplit

from statemaint.errors import ConfigError

# In these what stands before the @ is part of the place: a container, a bucket, a user's name.
_NAMED = frozenset("abfs abfss wasb wasbs hdfs webhdfs swebhdfs".split())  # noqa: SIM905
_TOKEN = re.compile(r"[?&](?:sig|token|access_?key|secret\w*|password|delegation)=", re.IGNORECASE)


def has_secret(address: str) -> bool:
    """Tells whether an address has a password, a key or a token in it."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "@" in address
    scheme = parts.scheme.rpartition("+")[2]
    user, found, _ = parts.netloc.rpartition("@")
    named = scheme in _NAMED and ":" not in user
    token = "://" in address and _TOKEN.search(address)
    return (bool(found) and not named) or bool(token)


def must_have_no_secret(address: str, instead: str) -> None:
    """Makes sure that an address can be shown.

    Args:
        address: it.
        instead: where a secret belongs.

    Raises:
        ConfigError: without the address, where it has a secret in it.
    """
    if has_secret(address):
        raise ConfigError(f"the address has a secret in it, which would be shown; {instead}")
