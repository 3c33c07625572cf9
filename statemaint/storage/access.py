"""Whether those who may use one file may use another, by owners, groups, modes and ACLs (S22).

Who is in which group is known in part only, so that the answer errs on one side: it may say that
somebody could lose a right who would not, never the other way round.
"""

from collections.abc import Callable, Iterator

from statemaint.errors import UnreadableError
from statemaint.listing import Access

READ = 0o4
USE = 0o7  # of a directory: list, enter, and make files in it
_EXECUTE = 0o111
_ALL_BITS = 0o777
_SET_GROUP = 0o2000

Belongs = Callable[[str, str], bool]
"""Whether a user is known to be in a group."""


def unknown(_user: str, _group: str) -> bool:
    """Returns false: nothing is known of any group."""
    return False


def deprived(
    like: Access,
    found: Access,
    *,
    bits: int = READ,
    belongs: Belongs = unknown,
    superuser: str | None = None,
) -> str | None:
    """Returns who may use one file and, for all that is known, not another; `None` for nobody.

    Args:
        like: of the file that they may use.
        found: of the other.
        bits: what using is.
        belongs: tells who is in which group, as far as that is known.
        superuser: who may use every file.
    """
    for user, granted in _users(like):
        if user != superuser and not _user_may(found, user, granted & bits, belongs):
            return f"user {user}"
    for group, granted in _groups(like):
        if not _group_may(like, found, group, granted & bits):
            return f"group {group}"
    needed = like.mode & bits
    if needed and not all(_covers(one, needed) for one in _others(like, found)):
        return "everybody else"
    return None


def unreadable(path: str, like: str, who: str, found: str, *, bits: int) -> UnreadableError:
    """Returns the error about somebody who may use one file and not another.

    Args:
        path: of the other.
        like: of the one.
        who: may use it.
        found: the owner, the group and the mode of the other.
        bits: what using is.
    """
    verb = "use" if bits == USE else "read"
    return UnreadableError(
        path,
        f"{who} may {verb} {like}, and could not {verb} this ({found}); run statemaint as the "
        "query's user, or as one who may give files to it",
    )


def of_file(directory: Access) -> Access:
    """Returns who may use a file that is for those who use a directory."""
    group = directory.group_bits
    return Access(
        directory.owner,
        directory.group,
        directory.mode & _ALL_BITS & ~_EXECUTE,
        None if group is None else group & ~_EXECUTE,
        tuple((kind, name, bits & ~_EXECUTE) for kind, name, bits in directory.named),
    )


def of_directory(parent: Access) -> Access:
    """Returns who may use a directory in a parent: the same, and never sticky."""
    mode = parent.mode & (_ALL_BITS | _SET_GROUP)
    return Access(parent.owner, parent.group, mode, parent.group_bits, parent.named)


def _covers(granted: int, needed: int) -> bool:
    return needed & ~granted == 0


def _users(access: Access) -> Iterator[tuple[str, int]]:
    yield access.owner, access.mode >> 6 & 7
    mask = access.mode >> 3 & 7
    for kind, name, bits in access.named:
        if kind == "user" and name != access.owner:  # whom no further entry matters for
            yield name, bits & mask


def _groups(access: Access) -> Iterator[tuple[str, int]]:
    mask = access.mode >> 3 & 7
    own = mask if access.group_bits is None else access.group_bits & mask
    yield access.group, own
    yield from ((name, bits & mask) for kind, name, bits in access.named if kind == "group")


def _user_may(found: Access, user: str, needed: int, belongs: Belongs) -> bool:
    for name, granted in _users(found):  # the first that fits decides
        if name == user:
            return _covers(granted, needed)
    groups = tuple(_groups(found))
    if any(_covers(granted, needed) and belongs(user, group) for group, granted in groups):
        return True
    return all(_covers(granted, needed) for granted in _whoever(found))


def _group_may(like: Access, found: Access, group: str, needed: int) -> bool:
    if not needed:
        return True
    users = {name for name, _ in _users(like)}  # whom the group does not matter for
    apart = (granted for name, granted in _users(found) if name not in users)
    own = [granted for name, granted in _groups(found) if name == group]
    enough = any if own else all
    return enough(_covers(one, needed) for one in own or _whoever(found)) and all(
        _covers(one, needed) for one in apart
    )


def _whoever(found: Access) -> tuple[int, ...]:
    """Returns what those may get who are no users of a file: their groups are not known."""
    return (*(granted for _, granted in _groups(found)), found.mode)


def _others(like: Access, found: Access) -> Iterator[int]:
    """Yields what those get of the other file who are nobody in particular for this one."""
    yield found.mode
    users = {name for name, _ in _users(like)}
    groups = {name for name, _ in _groups(like)}
    yield from (granted for name, granted in _users(found) if name not in users)
    yield from (granted for name, granted in _groups(found) if name not in groups)
