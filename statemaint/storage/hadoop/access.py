"""Owners, groups, modes and ACLs of Hadoop's file systems, in Hadoop's own notation.

An ACL's entries are `user:NAME:r--`, `group::r-x` (of the owning group) and `group:NAME:r--`.
Entries with the prefix `default:` apply to new files in a directory, not to the directory itself.
"""

from statemaint.listing import Access

_LETTERS = "rwx"
_ALL = 0o7


def with_entries(access: Access, entries: str) -> Access:
    """Returns a file's access, extended by the entries of its ACL: Java's list of them as text."""
    own, named = None, []
    for entry in filter(None, entries.strip("[]").split(", ")):
        kind, *rest = entry.split(":")
        name, bits = ":".join(rest[:-1]), _bits(rest[-1])
        if kind == "group" and not name:
            own = bits
        elif kind in ("user", "group") and name:
            named.append((kind, name, bits))
    if own is None and not named:
        return access
    mask = access.mode >> 3 & _ALL
    group = mask if own is None else own
    return Access(access.owner, access.group, access.mode, group, tuple(named))


def spec(access: Access) -> str:
    """Returns an ACL as `AclEntry.parseAclSpec` reads it."""
    parts = [f"user::{_text(access.mode >> 6)}"]
    parts += [f"{kind}:{name}:{_text(bits)}" for kind, name, bits in access.named]
    parts.append(f"group::{_text(access.group_bits or 0)}")
    parts.append(f"mask::{_text(access.mode >> 3)}")
    parts.append(f"other::{_text(access.mode)}")
    return ",".join(parts)


def _bits(text: str) -> int:
    return sum(4 >> at for at, letter in enumerate(_LETTERS) if text[at : at + 1] == letter)


def _text(bits: int) -> str:
    return "".join(letter if bits & 4 >> at else "-" for at, letter in enumerate(_LETTERS))
