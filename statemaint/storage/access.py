"""Whether the users of one file may use another, by owners, groups, modes and ACLs (S22).

Group membership is known only in part, so the answer errs on one side: it may report a loss of
rights where there is none, never the reverse.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from statemaint.errors import UnreadableError
from statemaint.listing import Access

READ = 0o4
USE = 0o7  # of a directory: list it, enter it, and create files in it
_EXECUTE = 0o111
_ALL_BITS = 0o777
_SET_GROUP = 0o2000

Belongs = Callable[[str, str], bool]
"""Whether a user is known to be in a group."""


def deprived(
    like: Access,
    access: Access,
    *,
    bits: int = READ,
    belongs: Belongs = lambda _user, _group: False,
    superuser: str | None = None,
) -> str | None:
    """Returns a user or group that may use the file `like` but possibly not another; or `None`."""
    for user, granted in _users(like):
        if user != superuser and not _user_may(access, user, granted & bits, belongs):
            return f"user {user}"
    for group, granted in _groups(like):
        if not _group_may(like, access, group, granted & bits):
            return f"group {group}"
    needed = like.mode & bits
    if needed and not all(_covers(granted, needed) for granted in _others(like, access)):
        return "all other users"
    return None


def unreadable(path: str, like: str, who: str, shown: str, *, bits: int) -> UnreadableError:
    verb = "use" if bits == USE else "read"
    return UnreadableError(
        path,
        f"{who} may {verb} {like}, and could not {verb} this ({shown}); run statemaint as the "
        "query's user, or as a user who may give files to it",
    )


def of_file(directory: Access) -> Access:
    group = directory.group_bits
    return replace(
        directory,
        mode=directory.mode & _ALL_BITS & ~_EXECUTE,
        group_bits=None if group is None else group & ~_EXECUTE,
        named=tuple((kind, name, bits & ~_EXECUTE) for kind, name, bits in directory.named),
    )


def of_directory(parent: Access) -> Access:
    """Returns the access of a directory in a parent: the parent's, and never sticky."""
    return replace(parent, mode=parent.mode & (_ALL_BITS | _SET_GROUP))


def _covers(granted: int, needed: int) -> bool:
    return needed & ~granted == 0


def _users(access: Access) -> Iterator[tuple[str, int]]:
    yield access.owner, access.mode >> 6 & 7
    mask = access.mode >> 3 & 7
    for kind, name, bits in access.named:
        if kind == "user" and name != access.owner:  # no named entry applies to the owner
            yield name, bits & mask


def _groups(access: Access) -> Iterator[tuple[str, int]]:
    mask = access.mode >> 3 & 7
    own = mask if access.group_bits is None else access.group_bits & mask
    yield access.group, own
    yield from ((name, bits & mask) for kind, name, bits in access.named if kind == "group")


def _user_may(access: Access, user: str, needed: int, belongs: Belongs) -> bool:
    for name, granted in _users(access):  # the first match decides
        if name == user:
            return _covers(granted, needed)
    groups = tuple(_groups(access))
    if any(_covers(granted, needed) and belongs(user, group) for group, granted in groups):
        return True
    return all(_covers(granted, needed) for granted in _possible_rights(access))


def _group_may(like: Access, access: Access, group: str, needed: int) -> bool:
    if not needed:
        return True
    users = {name for name, _ in _users(like)}  # group rights do not apply to them
    apart = (granted for name, granted in _users(access) if name not in users)
    own = [granted for name, granted in _groups(access) if name == group]
    enough = any if own else all
    return enough(_covers(granted, needed) for granted in own or _possible_rights(access)) and all(
        _covers(granted, needed) for granted in apart
    )


def _possible_rights(access: Access) -> tuple[int, ...]:
    # Of a user without an entry, whose groups are unknown.
    return (*(granted for _, granted in _groups(access)), access.mode)


def _others(like: Access, access: Access) -> Iterator[int]:
    yield access.mode
    users = {name for name, _ in _users(like)}
    groups = {name for name, _ in _groups(like)}
    yield from (granted for name, granted in _users(access) if name not in users)
    yield from (granted for name, granted in _groups(access) if name not in groups)
