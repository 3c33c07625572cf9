"""Queries that are run, kept and proved together: each family has an archive for each Spark."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.checkpoints.environments import VERSIONS
from tests.checkpoints.queries import KINDS, Kind
from tests.checkpoints.rocks_queries import (
    EVOLVES,
    EVOLVING_KINDS,
    MAINTAINED_KINDS,
    ROCKS_KINDS,
)

_WITH_ROCKS = ("3.5.9", "4.0.5", "4.3.0")


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds of queries, and where they are from.

    Attributes:
        kinds: what they are.
        versions: the Sparks whose checkpoints are kept.
        restarts: the numbers of batches after which they are restarted.
        crashes: whether one batch of each is forgotten before its commit is known, and run again.
    """

    kinds: tuple[Kind, ...]
    versions: tuple[str, ...]
    restarts: tuple[int, ...] = ()
    crashes: bool = False


FAMILIES: Mapping[str, Family] = {
    "": Family(KINDS, VERSIONS),
    "rocks": Family(ROCKS_KINDS, _WITH_ROCKS),
    "rocks-evolved": Family(EVOLVING_KINDS, ("4.3.0",), restarts=(EVOLVES,)),
    "rocks-maintained": Family(MAINTAINED_KINDS, ("3.5.9", "4.3.0"), crashes=True),
}


def archive_name(family: str, version: str) -> str:
    return f"{family}-{version}" if family else version


def archive_names() -> list[str]:
    return [archive_name(name, one) for name, family in FAMILIES.items() for one in family.versions]


def provable() -> list[str]:
    """Returns the names of those whose queries nobody else maintains."""
    return [name for name in archive_names() if not of_archive(name)[0].crashes]


def of_archive(name: str) -> tuple[Family, str]:
    family, _, version = name.rpartition("-")
    return FAMILIES[family], version
