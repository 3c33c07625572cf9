"""The proofs of repair steps, several stores at a time, and the doubts about them.

A search considers one step after another, since each relies on those before it. In nearly every
checkpoint, however, a step only needs files of its own store. So the stores are verified in
parallel before: without the files of each store's first step, of its first two, and so on. The
search reuses the results that fit (`audit.results`) and reads the rest itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from statemaint.audit.rebuild import Depth
from statemaint.audit.results import NO_RESULTS, Results, is_same
from statemaint.audit.verify import Verification, verify_at
from statemaint.errors import CheckpointError, StatemaintError, Superseded
from statemaint.fold import Source, engine_for
from statemaint.fold.needs import check_need, loading
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.ids import StoreId, batch_of
from statemaint.plan.recovery.recovery_plan import Proof, RepairStep
from statemaint.plan.recovery.repair_steps import of_checksum
from statemaint.storage import Storage, Without
from statemaint.workers import Job, Workers, in_turn


def store_of(checkpoint: Checkpoint, step: RepairStep) -> Store:
    if store := listed(checkpoint, step):
        return store
    place = step.store.directory if step.store else checkpoint.root
    detail = "is not listed, and a step of the repair needs it; it was removed in the meantime"
    raise Superseded(place, detail)


def listed(checkpoint: Checkpoint, step: RepairStep) -> Store | None:
    return next((store for store in checkpoint.stores if store.id == step.store), None)


@dataclass(slots=True)
class Proofs:
    """The proofs of steps, and the results of verifications, from before the search."""

    storage: Storage
    before: Checkpoint
    workers: Workers
    results: Results = NO_RESULTS
    _made: list[tuple[Store, int, Proof | StatemaintError]] = field(default_factory=list)

    def look_ahead(self, before: Verification, steps: Iterable[RepairStep]) -> None:
        """Verifies stores without the files of their steps, and proves these steps, in order."""
        by_store: dict[StoreId | None, list[RepairStep]] = defaultdict(list)
        for step in steps:
            if not of_checksum(step.finding):  # of these, one of two is taken, or often none
                by_store[step.store].append(step)
        if len(by_store) < 2 or self._threads(before.checkpoint, ()) == 1:  # noqa: PLR2004
            return
        results = before.results
        for most in range(1, max(map(len, by_store.values())) + 1):
            taken = [step for of_store in by_store.values() for step in of_store[:most]]
            without = self.verify_without(taken, results)
            results = without.results
            self.results = results + self.results
            last = [of_store[most - 1] for of_store in by_store.values() if len(of_store) >= most]
            self.prove(without.checkpoint, last)

    def verify_without(self, steps: Iterable[RepairStep], known: Results) -> Verification:
        # A removed zip may be rebuilt, so a lineage that names it is not broken for good, and the
        # families that it names will have their names again.
        taken = tuple(steps)
        view = Without(self.storage, frozenset(path for step in taken for path in step.paths))
        rebuilt: dict[StoreId, dict[int, frozenset[int]]] = defaultdict(dict)
        for step in taken:
            store = listed(self.before, step)
            if store and store.rocks and (families := store.families_at(step.version)):
                named = store.rocks.families.get(families.entry.path, {})
                rebuilt[store.id][step.version] = frozenset(named.values())
        return verify_at(view, Depth.ROWS, rebuilt=rebuilt, known=known, workers=self.workers)

    def prove(self, checkpoint: Checkpoint, steps: Iterable[RepairStep]) -> None:
        """Proves steps of different stores, several at a time; with one worker, `of` does."""
        there = [step for step in steps if listed(checkpoint, step)]
        threads = self._threads(checkpoint, there)
        if threads == 1:
            return
        stores = [store_of(checkpoint, step) for step in there]
        jobs = []
        for step, store in zip(there, stores, strict=True):
            start = partial(self._proofs, checkpoint, step)
            need = partial(self._need, checkpoint, store)
            jobs.append(Job(start, need, store.size, "repair step"))
        budget = self.workers.budget(loading(sum(job.size for job in jobs), checkpoint.provider))
        proofs = in_turn(jobs, threads=threads, budget=budget)
        versions = (step.version for step in there)
        self._made += zip(stores, versions, proofs, strict=True)

    def of(self, checkpoint: Checkpoint, step: RepairStep) -> Proof:
        store = store_of(checkpoint, step)
        for proved_store, version, proof in self._made:
            if version == step.version and is_same(proved_store, store):
                if isinstance(proof, StatemaintError):
                    raise proof
                return proof
        return self._proof(checkpoint, step)

    def _threads(self, checkpoint: Checkpoint, steps: Sequence[RepairStep]) -> int:
        size = sum(store_of(checkpoint, step).size for step in steps)
        return self.workers.threads(self.storage.parallel, size)

    def _need(self, checkpoint: Checkpoint, store: Store) -> int:
        return check_need(store, Source.of(self.storage, store, checkpoint))

    def _proofs(
        self, checkpoint: Checkpoint, step: RepairStep
    ) -> Iterator[Proof | StatemaintError]:
        try:
            yield self._proof(checkpoint, step)
        except StatemaintError as error:  # the search may never need this proof
            yield error.with_traceback(None)

    def _proof(self, checkpoint: Checkpoint, step: RepairStep) -> Proof:
        """Folds the version of a step from the log, or the newest one if the step's is above."""
        store = store_of(checkpoint, step)
        last = checkpoint.span[1] if checkpoint.span else 0
        version = min(step.version or last, last)
        chain = store.versions.from_log(version, proved=()) or store.versions.chain(version)
        if not isinstance(chain, Chain) or not chain.paths:
            detail = "files are missing; put them back from a copy"
            raise CheckpointError(store.id.directory, detail)
        # The zip that names the column families may be one that the step removes.
        families = store_of(self.before, step).families_at(version)
        source = replace(Source.of(self.storage, store, checkpoint), families=families)
        engine = engine_for(chain.size, checkpoint.provider)
        digest = engine.fold(source, chain, (version,), write=False).digests[version]
        return Proof(digest.digest, digest.rows, len(chain.paths), chain.start)


def doubts_of(store: Store, chain: Chain, snapshot: Entry, checkpoint: Checkpoint) -> Iterator[str]:
    """Yields why a chain may be wrong, by the times of its files and the proof of its base."""
    # A batch that runs again without changelogs writes a zip, and leaves the changelog.
    for delta in chain.deltas if store.rocks else ():
        batch = batch_of(delta.version)
        if (delta.entry.modified or 0.0) < (checkpoint.planned.get(batch) or 0.0):
            yield (
                f"{delta.entry.path} is older than offsets/{batch}: if the batch ran again "
                "without changelogs, the zip is right; move the changelog away then"
            )
            break
    if edited := _edited(store, chain, snapshot):
        yield f"{edited}; one of the two is wrong"
    proved = {proof.path for proof in store.attestations}
    if chain.base and chain.base.entry.path not in proved:
        yield (
            f"the chain that it differs from begins with {chain.base.entry.path}, which is "
            "not proved; one of the two is wrong"
        )


def _edited(store: Store, chain: Chain, snapshot: Entry) -> str | None:
    """Returns why a log may have been changed by something other than its query.

    A query writes one change after another. A rewound query writes every change again, from some
    version up to the snapshot's and beyond.
    """
    above = store.versions.deltas.get(chain.version + 1)
    entries = [delta.entry for delta in (*chain.deltas, *((above,) if above else ()))]
    for earlier, later in pairwise(entries):
        if (earlier.modified or 0.0) > (later.modified or 0.0):
            if snapshot.modified is not None and (earlier.modified or 0.0) > snapshot.modified:
                return f"{earlier.path} was written after it, and not by a query that was rewound"
            return f"{earlier.path} was written after {later.path}, which no query does"
    return None
