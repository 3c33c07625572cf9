"""Repair of snapshots and checksums that the log can replace."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BytesIO

from statemaint.audit.verify import Verification, verify
from statemaint.codec.integrity import checksum_file
from statemaint.errors import CheckpointError, CodecError, UnsupportedError
from statemaint.fold import Source, engine_for
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import ChecksumFile
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import RecoveryVerb, batch_of
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, RemoveReason, RepairStep
from statemaint.plan.recovery.repair_steps import (
    lacks_base,
    missing_bases,
    of_checksum,
    rebuilt,
    refers,
    repair_steps,
    self_checking,
    witness,
)
from statemaint.plan.staleness import judge, was_replaced
from statemaint.recover.carry_out import Proved, RecoveryReport, carry_out, log_entries, rewind_of
from statemaint.recover.proofs import Proofs, doubts_of, listed, store_of
from statemaint.scan.identity import check_links
from statemaint.scan.proofs import fingerprint
from statemaint.storage import ReadOnly, Storage
from statemaint.workers import Workers


def plan_repair(storage: Storage, *, workers: Workers | int | None = None) -> RecoveryPlan:
    """Returns the plan of a repair, each step with its proof; writes nothing.

    A bad snapshot whose version the log gives is rebuilt if retained versions are loaded from it,
    and removed otherwise. A checksum that does not match a sound file is removed, and so are a
    snapshot above the commit log and an unreadable schema file. Nothing else is repaired: lost or
    damaged changes, rows in the wrong partition and joins that disagree are left to the operator.

    Each step is proved on the checkpoint as it would be without the files: everything that they may
    affect is verified again as `verify --deep` does; the step's finding must be resolved, and no
    other may have appeared.

    Args:
        storage: where the checkpoint lives.
        workers: the number of stores that are read at a time; by default what suits the storage.

    Raises:
        Superseded: when a store is removed in the meantime.
        UnsupportedError: when the checkpoint is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    return _proved(storage, workers).plan


def repair(
    storage: Storage,
    *,
    trash_for: float,
    expected: str | None = None,
    workers: Workers | int | None = None,
) -> RecoveryReport:
    """Repairs what the log can prove; the bad files are moved to the trash.

    The query must not run: if its logs change in the meantime, nothing is done.

    Args:
        storage: where the checkpoint lives.
        trash_for: the minimum number of seconds that the bad files are kept.
        expected: the fingerprint of the plan that was reviewed; none by default.
        workers: the number of stores that are read, and then repaired, at a time; by default what
            suits the storage. The plan and the report are the same with any number.

    Raises:
        Superseded: when the plan has changed since, or the logs change in the meantime.
        LeaseHeldError: when another run maintains the checkpoint.
        SnapshotMismatchError: when a new snapshot does not read back as it was folded.
        UnsupportedError, StorageError: as `plan_repair` does.
    """
    prove = partial(_proved, storage, workers)
    return carry_out(storage, prove, trash_for=trash_for, expected=expected, workers=workers)


def _proved(storage: Storage, workers: Workers | int | None) -> Proved:
    reading = ReadOnly(storage)
    check_links(reading)
    entries = log_entries(reading)
    before = _without_corrupt(verify(reading, deep=True, workers=workers))
    proofs = Proofs(reading, before.checkpoint, Workers.of(workers))
    search = _Search(reading, before, proofs)
    steps = repair_steps(before.checkpoint, before.findings)
    proofs.look_ahead(before, steps)
    for step in steps:
        search.consider(step)
    bases = [*missing_bases(before.checkpoint, before.findings)]
    proofs.prove(before.checkpoint, bases)
    for step in bases:
        search.add(step)
    checkpoint = search.after.checkpoint
    plan = RecoveryPlan(
        RecoveryVerb.REPAIR,
        checkpoint.root,
        checkpoint.query_id,
        checkpoint.committed,
        repairs=tuple(search.made()),
        findings=search.findings,
        unrepaired=search.unrepaired,
        versions_checked=search.after.versions_checked,
        rewind=rewind_of(reading, checkpoint, entries, checkpoint.committed),
    )
    return Proved(plan, checkpoint, entries)


class _Search:
    """The steps that are proved so far, and the verification with all of them taken."""

    def __init__(self, storage: Storage, before: Verification, proofs: Proofs) -> None:
        self._storage, self._before, self._proofs = storage, before, proofs
        self.after, self.accepted, self.based = before, list[RepairStep](), list[RepairStep]()
        self._stays: dict[str, str] = {}

    def consider(self, step: RepairStep) -> None:
        """Takes a step with its proof, unless there is a reason against it."""
        removed = self._removed
        removes = tuple(remove for remove in step.removes if remove.path not in removed)
        if not removes or self._settled(step.finding):
            return  # another step removes its files, or the fault is resolved
        step = replace(step, removes=removes)
        known = self.after.results + self._proofs.results
        without = self._proofs.verify_without([*self.accepted, step], known)
        try:
            objection = next(self._against(step, without), None)
            proof = None if objection else self._proofs.of(without.checkpoint, step)
        except (CheckpointError, UnsupportedError) as error:
            objection, proof = f"the log does not give version {step.version}: {error}", None
        if objection or proof is None:
            self._stays.setdefault(step.removes[-1].path, f"{objection}")
            return
        self.accepted.append(replace(step, proof=proof))
        self.after = without

    def add(self, step: RepairStep) -> None:
        """Takes a step that removes nothing, unless a bad snapshot of its store is rebuilt."""
        store = store_of(self._before.checkpoint, step)
        rebuilt_anyway = any(accepted.store == step.store for accepted in self.accepted)
        if rebuilt_anyway or _loses_families(store, self._before, step):
            return
        if outside := _outside(store.outside):
            self._stays.setdefault(store.id.directory, outside)
            return
        if was_replaced(store):
            path = step.finding.path or store.id.directory
            self._stays.setdefault(path, "the log that a zip would be written from is in doubt")
            return
        try:
            proof = self._proofs.of(self._before.checkpoint, step)
        except (CheckpointError, UnsupportedError) as error:
            path = step.rebuild.path if step.rebuild else ""
            self._stays.setdefault(path, f"the log does not give version {step.version}: {error}")
        else:
            self.based.append(replace(step, proof=proof))

    def _settled(self, finding: Finding) -> bool:
        # Removing the lower of two snapshots may resolve a mismatch between them, and a checksum
        # that does not match has two possible steps.
        twofold = finding.code is FindingCode.SNAPSHOT_MISMATCH or of_checksum(finding)
        return twofold and _key(finding) not in _damage(self.after)

    def _against(self, step: RepairStep, without: Verification) -> Iterator[str]:
        before, after = store_of(self._before.checkpoint, step), listed(without.checkpoint, step)
        if outside := _outside((*before.outside, *(remove.entry for remove in step.removes))):
            yield outside
        if after is None:
            yield "without it, its store has no files"
            return
        if refers(after, step.removes[-1].path):
            yield "a remaining zip refers to it"
        if step.reason is RemoveReason.BAD_SNAPSHOT and _loses_families(before, without, step):
            yield "no zip lists the column families"
        new = sorted(_damage(without) - _damage(self.after) - _allowed(step))
        yield from (f"without it, {code} at {path}" for code, path in new)
        if step.reason is RemoveReason.BAD_SNAPSHOT:
            yield from self._in_doubt(step, before)
        if step.reason is RemoveReason.STALE_CHECKSUM:
            yield from self._against_checksum(step, before, without)
        elif step.finding.code is FindingCode.SNAPSHOT_MISMATCH or self._decodes(step, before):
            yield from self._against_log(step, before, after)

    def _in_doubt(self, step: RepairStep, store: Store) -> Iterator[str]:
        """Yields why the log may not give the version of a bad snapshot."""
        for finding in self._before.findings:
            mine = finding.code is FindingCode.LOG_REPLACED and finding.store == store.id
            if mine and batch_of(step.version) in finding.batches:
                yield f"{finding.path} was replaced; put the original back from a copy"
        for suspect in judge(store, self._before.checkpoint).disputed:
            by_others = () if suspect.by_query else suspect.replaced
            if suspect.path != step.removes[-1].path and any(v <= step.version for v in by_others):
                yield f"the log below it is in doubt, as {suspect.path} shows: {suspect.why}"

    def _against_checksum(
        self, step: RepairStep, store: Store, without: Verification
    ) -> Iterator[str]:
        """Yields why the file may be wrong, and not the checksum beside it."""
        path = step.removes[-1].path
        side = next(file for file in store.files if file.entry.path == path)
        if not isinstance(side, ChecksumFile):  # pragma: no cover -- only these have such a step
            raise TypeError(side)
        if any(finding.damage and finding.path == side.owner for finding in without.findings):
            yield f"{side.owner} is damaged itself"
        compared = self._agrees(store_of(without.checkpoint, step), side)
        # A checksum of other bytes may be right, and the file beside it another whole file.
        garbled = not _is_checksum(self._storage, side)
        if not compared and not (garbled and self_checking(without.checkpoint)):
            yield f"it is unclear whether it or {side.owner} is wrong; put both back from a copy"

    def _agrees(self, store: Store, side: ChecksumFile) -> bool:
        """Returns whether a snapshot that was not made from a file agrees with its content."""
        if not (pair := witness(store, side)):
            return False
        snapshot, chain = pair
        source = self._unchecked(store).like(snapshot)
        engine = engine_for(chain.size, self._before.checkpoint.provider)
        with suppress(CheckpointError, UnsupportedError):
            held = engine.digest(source, snapshot.entry.path)
            folded = engine.fold(source, chain, (chain.version,), write=False)
            return held == folded.digests[chain.version]
        return False

    def _unchecked(self, store: Store) -> Source:
        # No checksum is read: those of the other files may be stale as well.
        return replace(Source.of(self._storage, store, self._before.checkpoint), checksums={})

    def _decodes(self, step: RepairStep, store: Store) -> bool:
        # A snapshot that can be read without its checksum may be right, and the log wrong.
        if not of_checksum(step.finding):
            return False
        entry = step.removes[-1].entry
        engine = engine_for(entry.size, self._before.checkpoint.provider)
        with suppress(CheckpointError, UnsupportedError):
            engine.digest(self._unchecked(store), entry.path)
            return True
        return False

    def _against_log(self, step: RepairStep, before: Store, after: Store) -> Iterator[str]:
        """Yields why the log may be wrong, and not the snapshot that differs from it."""
        path = step.removes[-1].path
        for suspect in judge(before, self._before.checkpoint).disputed:
            if suspect.path == path and not suspect.by_query:
                once = "it was equal to the log when it was proved; " if suspect.proved else ""
                yield f"{once}{suspect.why}"
        for proof in before.attestations:
            if proof.path != path or not proof.inputs:  # without any, it was only read
                continue
            if fingerprint(self._storage, path) == (proof.size, proof.sum):
                yield (
                    "it was equal to the log when it was proved, so the log has changed since; put "
                    "the log's files back from a copy"
                )
        if chain := after.versions.from_log(step.version, proved=()):
            yield from doubts_of(after, chain, step.removes[-1].entry, self._before.checkpoint)

    @property
    def _removed(self) -> set[str]:
        return {path for step in self.accepted for path in step.paths}

    @property
    def unrepaired(self) -> tuple[str, ...]:
        """Each file whose removal might have resolved a finding, with why it stays."""
        removed, stays = self._removed, self._stays.items()
        return tuple(f"{path} stays: {why}" for path, why in stays if path not in removed)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that remain after all steps; no step resolves a broken lineage."""
        remaining = dict.fromkeys(self.after.findings)
        for finding in self._before.findings:
            of_changelog = finding.path and finding.path.endswith(".changelog")
            if finding.code is FindingCode.LINEAGE_BROKEN and of_changelog:
                remaining[finding] = None
        based = [store_of(self._before.checkpoint, step) for step in self.based]
        return tuple(it for it in remaining if not any(lacks_base(store, it) for store in based))

    def made(self) -> Iterator[RepairStep]:
        before = self._before.checkpoint
        first, last = before.span or (0, 0)
        window = range(first, last + 1)
        for step in self.accepted:
            listed, store = store_of(before, step), store_of(self.after.checkpoint, step)
            yield replace(step, rebuild=rebuilt(step, listed, store, window))
        yield from self.based


def _allowed(step: RepairStep) -> set[tuple[str, str]]:
    """Returns the findings that a step may leave: a restarted query writes a missing schema."""
    unreadable = step.reason is RemoveReason.UNREADABLE_SCHEMA
    return {(FindingCode.MISSING_SCHEMA.value, step.removes[0].path)} if unreadable else set()


def _damage(verification: Verification) -> set[tuple[str, str]]:
    return {_key(finding) for finding in verification.findings if finding.damage}


def _key(finding: Finding) -> tuple[str, str]:
    return finding.code.value, finding.path or str(finding.store)


_CORRUPT = {FindingCode.CORRUPT_FILE, FindingCode.SNAPSHOT_MISMATCH, FindingCode.STALE_CHECKSUM}


def _without_corrupt(found: Verification) -> Verification:
    """Returns a verification whose stores take column families from no zip that is damaged."""
    paths = frozenset(
        finding.path for finding in found.findings if finding.code in _CORRUPT and finding.path
    )
    stores = tuple(
        replace(store, rocks=replace(store.rocks, unreadable=store.rocks.unreadable | bad))
        if store.rocks and (bad := paths & store.rocks.families.keys())
        else store
        for store in found.checkpoint.stores
    )
    return replace(found, checkpoint=replace(found.checkpoint, stores=stores))


def _loses_families(store: Store, verified: Verification, step: RepairStep) -> bool:
    """Returns whether a store has column families that no zip names."""
    if store.rocks is None or store.families_at(step.version):
        return False
    operators = verified.checkpoint.operators
    return any(it.has_families and it.id == store.id.operator for it in operators)


def _is_checksum(storage: Storage, side: ChecksumFile) -> bool:
    if side.by_spark and side.entry.size > checksum_file.MOST_BYTES:
        return False
    content = storage.read(side.entry.path)
    with suppress(CodecError):
        if side.by_spark:
            checksum_file.parse_spark(content)
        else:
            checksum_file.hadoop_matches(content, BytesIO())
        return True
    return False


def _outside(entries: Iterable[Entry]) -> str | None:
    """Returns why nothing is done where some files are; `None` if all are inside (S24)."""
    path = next((entry.path for entry in entries if entry.outside), None)
    return f"{path} is outside the checkpoint, where a link leads" if path else None
