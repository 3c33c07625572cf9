"""Whether whoever may use one file may use another: against POSIX's own rule, person by person."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.listing import Access
from statemaint.storage.access import READ, USE, deprived, of_directory, of_file

USERS = ("spark", "maint", "bob", "carol")
GROUPS = ("data", "ops", "staff")
SPARK = Access("spark", "data", 0o640)


def posix(access: Access, user: str, groups: frozenset[str], bits: int) -> bool:
    """Tells whether a user may: the rule of acl(5), "access check algorithm"."""
    mask = access.mode >> 3 & 7
    if user == access.owner:
        return (access.mode >> 6 & bits) == bits
    for kind, name, granted in access.named:
        if kind == "user" and name == user:
            return (granted & mask & bits) == bits
    own = mask if access.group_bits is None else access.group_bits
    classes = [(access.group, own & mask)]
    classes += [(name, granted & mask) for kind, name, granted in access.named if kind == "group"]
    mine = [granted for name, granted in classes if name in groups]
    if mine:
        return any((granted & bits) == bits for granted in mine)
    return (access.mode & bits) == bits


def entries() -> st.SearchStrategy[tuple[tuple[str, str, int], ...]]:
    one = st.one_of(
        st.tuples(st.just("user"), st.sampled_from(USERS), st.integers(0, 7)),
        st.tuples(st.just("group"), st.sampled_from(GROUPS), st.integers(0, 7)),
    )
    return st.lists(one, max_size=3, unique_by=lambda entry: entry[:2]).map(tuple)


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    owner, group = draw(st.sampled_from(USERS)), draw(st.sampled_from(GROUPS))
    named = draw(entries())
    own = draw(st.integers(0, 7)) if named else draw(st.none() | st.integers(0, 7))
    return Access(owner, group, draw(st.integers(0, 0o777)), own, named)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Access, Access]:
    """Two files that often differ in little."""
    one, other = draw(accesses()), draw(accesses())
    fields = {name: getattr(one, name) for name in draw(st.sets(st.sampled_from(ALL)))}
    found = {name: getattr(other, name) for name in ALL} | fields
    if found["named"] and found["group_bits"] is None:
        found["group_bits"] = 4
    return one, Access(**found)


ALL = ("owner", "group", "mode", "group_bits", "named")
MEMBERS = st.fixed_dictionaries({user: st.frozensets(st.sampled_from(GROUPS)) for user in USERS})


@given(pairs(), MEMBERS, MEMBERS, st.sampled_from([READ, USE]))
def test_whom_it_finds_nobody_deprived_of_nobody_is(
    pair: tuple[Access, Access],
    truth: Mapping[str, frozenset[str]],
    known: Mapping[str, frozenset[str]],
    bits: int,
) -> None:
    like, found = pair

    def belongs(user: str, group: str) -> bool:  # what is known is true, and not all is known
        return group in truth[user] & known[user]

    if deprived(like, found, bits=bits, belongs=belongs) is None:
        for user in USERS:
            each = [4, 2, 1] if bits == USE else [bits]
            for bit in each:
                assert posix(found, user, truth[user], bit) or not posix(
                    like, user, truth[user], bit
                )


@given(accesses())
def test_a_file_deprives_nobody_of_itself(access: Access) -> None:
    assert deprived(access, access) is None
    assert deprived(access, access, bits=USE) is None


def of(owner: str, group: str, mode: int, *named: tuple[str, str, int], own: int = 4) -> Access:
    return Access(owner, group, mode, own if named else None, named)


@pytest.mark.parametrize(
    ("like", "found", "who"),
    [
        # the umask of a maintainer
        (of("spark", "data", 0o644), of("root", "root", 0o600), "user spark"),
        (of("spark", "data", 0o644), of("spark", "data", 0o600), "group data"),
        (of("spark", "data", 0o604), of("spark", "data", 0o600), "all other users"),
        # another owner: all that is sure is what everybody may
        (of("spark", "data", 0o644), of("maint", "ops", 0o644), None),
        (of("spark", "data", 0o640), of("maint", "data", 0o640), "user spark"),
        (of("spark", "data", 0o600), of("maint", "data", 0o600), "user spark"),
        (of("spark", "data", 0o600), of("spark", "ops", 0o600), None),
        (of("spark", "data", 0o640), of("spark", "ops", 0o640), "group data"),
        (of("spark", "data", 0o640), of("spark", "ops", 0o644), None),
        # a group that everybody else is not in may read less than they
        (of("spark", "data", 0o604), of("spark", "ops", 0o604), "all other users"),
        (of("spark", "data", 0o604), of("spark", "data", 0o604), None),
        # further entries
        (of("spark", "data", 0o640), of("maint", "data", 0o640, ("user", "spark", 4)), None),
        (
            of("spark", "data", 0o640),
            of("maint", "data", 0o600, ("user", "spark", 4)),
            "user spark",
        ),
        (of("spark", "data", 0o640), of("spark", "ops", 0o640, ("group", "data", 4)), None),
        (of("spark", "data", 0o640, ("user", "bob", 4)), of("spark", "data", 0o640), "user bob"),
        (of("spark", "data", 0o644), of("spark", "data", 0o644, ("user", "bob", 0)), "group data"),
    ],
)
def test_who_may_read_one_file_and_not_another(
    like: Access, found: Access, who: str | None
) -> None:
    assert deprived(like, found) == who


def test_who_is_known_to_be_in_a_group_reads_by_it() -> None:
    ours = of("maint", "data", 0o640)
    assert (
        deprived(SPARK, ours, belongs=lambda user, group: (user, group) == ("spark", "data"))
        is None
    )
    assert deprived(SPARK, ours, belongs=lambda *_: False) == "user spark"


def test_a_superuser_reads_everything() -> None:
    ours = of("maint", "data", 0o640)
    assert deprived(Access("0", "data", 0o640), ours, superuser="0") is None
    assert deprived(SPARK, ours, superuser="0") == "user spark"


def test_a_directory_is_for_those_who_make_files_in_its_parent() -> None:
    parent = of("spark", "data", 0o2775)
    assert of_directory(Access("spark", "data", 0o3775)) == parent
    assert deprived(parent, of("maint", "data", 0o2755), bits=USE) == "user spark"
    assert deprived(parent, of("spark", "data", 0o2755), bits=USE) == "group data"
    assert deprived(parent, of("spark", "data", 0o755), bits=READ) is None


def test_our_records_are_for_those_who_use_the_root() -> None:
    root = of("spark", "data", 0o3771, ("user", "bob", 7), own=5)
    assert of_file(root) == of("spark", "data", 0o660, ("user", "bob", 6), own=4)
    assert of_file(Access("spark", "data", 0o750)) == SPARK
