"""Finds the requested version of the state, and checks that it exists."""

from statemaint.errors import ConfigError, DamagedError
from statemaint.model.chain import Chain, Gap, Unnamed
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.plan import diagnose


def committed_version(checkpoint: Checkpoint, version: int | None = None) -> int:
    """Returns a committed version, the newest one by default.

    Raises:
        ConfigError: when it is not committed.
        DamagedError: when the checkpoint's own logs cannot be read.
    """
    for finding in checkpoint.findings:
        if finding.damage and not _leaves_rows(finding):
            raise DamagedError(checkpoint.root, finding.detail, code=finding.code.value)
    target = checkpoint.target
    if target is None:
        raise ConfigError(f"{checkpoint.root}: no batch is committed yet, so there is no state")
    if version is not None and version > target:
        # Versions above belong to a running or failed batch (S2).
        raise ConfigError(
            f"{checkpoint.root}: version {version} is not committed; the newest is {target}"
        )
    return target if version is None else version


def _leaves_rows(finding: Finding) -> bool:
    """Returns whether rows can be read beside damage: lost metadata only tell lists from others."""
    of_operator = (finding.path or "").endswith("/_metadata")
    lost = finding.code is FindingCode.UNREADABLE_METADATA and of_operator
    return lost or finding.code is FindingCode.REFUSED_LINK


def stores_at(checkpoint: Checkpoint, version: int) -> tuple[Store, ...]:
    """Returns the stores of a version; a repartition changes them.

    Raises:
        ConfigError: when it has none of the existing stores.
    """
    existing = tuple(one for one in checkpoint.stores if checkpoint.asks(one.id, version))
    if not existing:
        text = f"version {version} has no partition {checkpoint.stores[0].id.partition}"
        raise ConfigError(f"{checkpoint.root}: {text}; the state was repartitioned")
    return existing


def chain_of(checkpoint: Checkpoint, store: Store, version: int) -> Chain:
    """Returns the chain that a store's version folds from.

    Raises:
        DamagedError: when it should load, and does not.
        ConfigError: when it no longer loads.
    """
    chain = store.versions.chain(version)
    if isinstance(chain, Chain):
        return chain
    if checkpoint.required is not None and version >= checkpoint.required:
        for finding in diagnose(store, checkpoint):
            if finding.damage:
                raise DamagedError(store.id.directory, finding.detail, code=finding.code.value)
    raise ConfigError(_no_longer_loads(store, chain))


def _no_longer_loads(store: Store, found: Gap | Unnamed) -> str:
    kind = "delta" if store.rocks is None else "changelog"
    match found:
        case Gap():
            why = f"{store.id.directory}/{found.first}.{kind} is missing"
        case Unnamed():
            why = found.why
    return f"{store.id}: version {found.version} no longer loads, {why}"
