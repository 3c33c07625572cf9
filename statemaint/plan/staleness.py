"""The judgement on a snapshot whose log was replaced after it was proved. Pure.

A rewound query writes its deltas again: from some version up to the snapshot's, in order, each
before its commit. Such a log is the truth, and the snapshot is *stale*. A log that was changed in
any other way (files swapped, restored, edited) is in doubt, and the snapshot is the witness
against it: nothing is decided before the two have been compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from statemaint.model.chain import Chain, Versions
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot, owner_of
from statemaint.model.proof import Attestation, Outdated
from statemaint.plan.rewinds import (
    contestable,
    earlier_than_their_log,
    loose,
    written_below,
    written_by_query,
)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A snapshot whose log was replaced."""

    snapshot: Snapshot
    instead: Chain  # the chain that gives its version without it
    replaced: tuple[int, ...]
    by_query: bool  # whether the query replaced them after a rewind
    why: str  # what was replaced, as the end of a sentence
    proved: bool = True  # whether it was once proved equal to that log

    @property
    def path(self) -> str:
        return self.snapshot.entry.path

    @property
    def doubts(self) -> tuple[int, ...]:
        """Returns the replaced versions that the snapshot does not confirm if it agrees."""
        if self.by_query or not self.proved:
            return ()
        return tuple(version for version in self.replaced if version < self.snapshot.version)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The consequences of a store's outdated proofs."""

    stale: tuple[Suspect, ...] = ()  # ours, from before a rewind; the log takes their place
    disputed: tuple[Suspect, ...] = ()  # snapshots to compare with the log before any other action
    lost: tuple[Outdated, ...] = ()  # snapshots from before a rewind that nothing can replace
    edited: tuple[Outdated, ...] = ()  # log edited by hand, with nothing to compare it with

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        return (*self.stale, *self.disputed)

    def without_stale(self, store: Store) -> Store:
        stale = {suspect.path for suspect in self.stale}
        kept = (it for it in store.files if owner_of(it) not in stale)
        return replace(store, files=tuple(kept)) if stale else store


def judge(store: Store, checkpoint: Checkpoint) -> Judgement:
    """Returns the judgement on a store's outdated proofs and on snapshots older than their changes.

    A snapshot with nothing left below it is trusted, unless the query wrote its log again.
    """
    target = checkpoint.target
    if target is None:
        return Judgement()
    found = tuple(loose(store, checkpoint, target))
    below = tuple(written_below(found, store, checkpoint, target))
    earlier = (*earlier_than_their_log(store, target), *contestable(found, store))
    early = {snapshot.version: (snapshot, delta) for snapshot, delta in earlier}
    doubted = any(proof.doubted for proof in store.attestations)
    replaced = any(former.replaced for former in store.former)
    if not (store.outdated or early or below or doubted or replaced):
        return Judgement()
    return _Judge(store, checkpoint, target, early, below).judged()


class _Judge:
    """The evidence: the log, the trusted snapshots and the commits."""

    def __init__(
        self,
        store: Store,
        checkpoint: Checkpoint,
        target: int,
        early: Mapping[int, tuple[Snapshot, Delta]],
        below: tuple[Outdated, ...],
    ) -> None:
        self._store, self._checkpoint, self._target = store, checkpoint, target
        self._versions, self._early = store.versions, early
        self._outdated = (*store.outdated, *below)
        suspects = {proof.path for proof in self._outdated}
        suspects |= {snapshot.entry.path for snapshot, _ in early.values()}
        self._trusted = self._versions.without(suspects)
        self._proved = {proof.version for proof in store.attestations if proof.path not in suspects}
        self._stale: list[Suspect] = []
        self._disputed: list[Suspect] = []
        self._lost: list[Outdated] = []
        self._edited: list[Outdated] = []

    def judged(self) -> Judgement:
        """Returns the judgement; the lowest versions come first, as others may start from them."""
        paths = {it.version: it.entry.path for it in self._versions.snapshots.values()}
        committed = (proof for proof in self._outdated if proof.version <= self._target)
        outdated = {it.version: it for it in committed if paths.get(it.version) == it.path}
        for version in sorted({*outdated, *self._early}):
            if version in outdated:
                self._judge(outdated[version])
                continue
            snapshot, delta = self._early[version]
            if instead := self._instead(version):
                self._disputed.append(_unproved(snapshot, delta, instead))
            else:
                self._trust(snapshot)
        for suspect in tuple(self._stale):
            self._judge_heir(suspect)
        for former in self._store.former:
            self._judge_former(former)
        self._judge_witnesses()
        disputed = sorted(self._disputed, key=lambda suspect: suspect.snapshot.version)
        lost, edited = tuple(self._lost), tuple(self._edited)
        return Judgement(tuple(self._stale), tuple(disputed), lost, edited)

    def _judge(self, outdated: Outdated) -> None:
        snapshot = self._versions.snapshots[outdated.version]
        replaced = _replaced(outdated, self._versions)  # empty if only the base was replaced
        by_query = bool(replaced) and self._by_query(outdated)
        if instead := self._instead(outdated.version):
            suspect = Suspect(snapshot, instead, replaced, by_query, outdated.why)
            (self._stale if by_query and outdated.proof.ours else self._disputed).append(suspect)
        elif by_query:
            self._lost.append(outdated)
        else:
            self._trust(snapshot)
            if replaced:
                self._edited.append(outdated)

    def _judge_heir(self, stale: Suspect) -> None:
        """Judges the snapshot that a stale one hid: it is compared before anything is loaded."""
        heir = self._trusted.base(stale.snapshot.version - 1)
        if heir is None or heir.version in self._settled():
            return
        if instead := self._instead(heir.version):
            why = (
                f"it was not proved, and a restart loads it once {stale.path}, which is stale, is "
                "deleted"
            )
            self._disputed.append(Suspect(heir, instead, (heir.version,), by_query=True, why=why))

    def _judge_former(self, former: Outdated) -> None:
        replaced, version = _replaced(former, self._versions), former.version
        snapshot = self._trusted.snapshots.get(version)
        if snapshot is None or snapshot.entry.path != former.path or version in self._settled():
            return
        if not replaced or version > self._target:
            return
        by_query = self._by_query(former, former.proof.modified)
        if instead := self._instead(version):
            why = (
                f"{former.replaced[0].name} was replaced after another file of this name was "
                "proved. Restore the previous file from a copy"
            )
            self._disputed.append(Suspect(snapshot, instead, replaced, by_query, why))
        elif not by_query:
            self._edited.append(former)

    def _judge_witnesses(self) -> None:
        """Judges the snapshots not yet compared above a log that was changed by hand.

        Other files, which no proof names, may have been replaced together with these.
        """
        doubts = ((edited, _replaced(edited, self._versions)) for edited in self._edited)
        doubted = (
            (Outdated(proof, ()), tuple(delta.version for delta in same))
            for proof, same in doubts_of(self._store)
        )
        for edited, replaced in (*doubts, *doubted):
            above = [version for version in self._trusted.snapshots if version > edited.version]
            for version in sorted({*above} - self._settled()):
                if version <= self._target and (instead := self._instead(version)):
                    why = (
                        f"the log below was changed after {edited.path} was proved, and not by the "
                        "query, so nothing shows which of the two is right. Restore the log's "
                        "files from a copy"
                    )
                    witness = self._trusted.snapshots[version]
                    self._disputed.append(
                        Suspect(witness, instead, replaced, by_query=False, why=why, proved=False)
                    )

    def _by_query(self, outdated: Outdated, begun: float | None = None) -> bool:
        return written_by_query(outdated, self._versions, self._checkpoint, self._target, begun)

    def _settled(self) -> set[int]:
        return self._proved | {suspect.snapshot.version for suspect in self._disputed}

    def _instead(self, version: int) -> Chain | None:
        return self._trusted.from_log(version, proved=self._proved)

    def _trust(self, snapshot: Snapshot) -> None:
        """Makes a snapshot that nothing can disprove the witness of those above it."""
        kept = {**self._trusted.snapshots, snapshot.version: snapshot}
        self._trusted = replace(self._trusted, snapshots=kept)


def _unproved(snapshot: Snapshot, delta: Delta, instead: Chain) -> Suspect:
    changes = "the changes of its version" if delta.version == snapshot.version else "changes below"
    why = (
        f"it is older than {delta.entry.name}, which has {changes}: a query that was rewound "
        "writes these again. If that happened, `statemaint repair` can rely on the log"
    )
    return Suspect(snapshot, instead, (snapshot.version,), by_query=True, why=why)


def doubts_of(store: Store) -> Iterator[tuple[Attestation, tuple[Delta, ...]]]:
    """Yields each proof that leaves files in doubt, with those that still exist, ascending."""
    doubting = [proof for proof in store.attestations if proof.doubted]
    listed = {it.entry.path: it for it in store.versions.deltas.values()} if doubting else {}
    for proof in doubting:
        records = (record for record in proof.doubted if record.path in listed)
        same = [listed[it.path] for it in records if it == it.listed_as(listed[it.path].entry)]
        if same:
            yield proof, tuple(sorted(same, key=lambda delta: delta.version))


def was_replaced(store: Store) -> bool:
    proofs = (*store.outdated, *store.former)
    return any(proof.replaced for proof in proofs) or any(True for _ in doubts_of(store))


def _replaced(outdated: Outdated, versions: Versions) -> tuple[int, ...]:
    paths = {entry.path for entry in outdated.replaced}
    return tuple(sorted(v for v, delta in versions.deltas.items() if delta.entry.path in paths))
