"""One line of a storage's listing."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use a file, on a storage that has modes: the model of POSIX, with its ACLs.

    Attributes:
        owner: the owner's name, or number where the storage counts.
        group: the owning group's.
        mode: the permission bits; where there are further entries the group's are their mask.
        group_bits: those of the owning group itself, where there are further entries.
        named: the further entries: `user` or `group`, its name, its bits.
    """

    owner: str
    group: str
    mode: int
    group_bits: int | None = None
    named: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file as its storage lists it.

    Attributes:
        path: relative to the checkpoint's root, with `/` between its parts.
        size: in bytes.
        modified: seconds since the epoch by the storage's own clock; `None` where it has none.
        tag: the storage's own mark of the content, such as an ETag; `None` where it has none.
        access: who may use it, without further entries, where a listing says so at no cost; it does
            not count when entries are compared.
    """

    path: str
    size: int
    modified: float | None
    tag: str | None = None
    access: Access | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Returns the last part of the path."""
        return self.path.rpartition("/")[2]
