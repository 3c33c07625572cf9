"""Savepoints of a query, each in a world of its own, and what must be true of them at any time.

    whole          its `metadata` has an id, as a Spark would read it, and each store loads what was
                   true after its batch, from a single file
    not startable  its `metadata` can be read by no Spark, or there is nothing but our own files
    started        a query has run from it: what it has read, and written, is nobody else's

What was true after a batch the query knows, by the batch's entry in the offset log.
"""

import json
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from statemaint.maintain.pins import pinned
from statemaint.model.checkpoint import Provider
from statemaint.model.pins import Pin
from statemaint.records.savepoints import SAME, Shape
from statemaint.savepoint.catalog import look
from statemaint.savepoint.expiry import carry_out
from statemaint.savepoint.keep import decide
from statemaint.savepoint.run import savepoint
from statemaint.storage import Storage
from tests.certify.files import State, spot
from tests.certify.judge import Loss
from tests.certify.loading import Loader
from tests.certify.query import Truth
from tests.certify.rocks_files import tables_of
from tests.certify.rocks_loading import RocksLoader
from tests.certify.rows import for_provider, partition_of
from tests.certify.seat import Seat
from tests.certify.world import Doer, File, World

if TYPE_CHECKING:
    from tests.certify.stage import Stage

FOLDER = "savepoints://folder"
_CODEC = "spark.sql.streaming.stateStore.compression.codec"
_PARTITIONS = "spark.sql.shuffle.partitions"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_CLASSES = "org.apache.spark.sql.execution.streaming.state"
_OF_A_QUERY = ("state/", "offsets/", "commits/", "sources/")


@dataclass(slots=True)
class Dest:
    """A folder that a savepoint is written to: its judge as well.

    Attributes:
        stage: where the query lives.
        address: of the folder.
        batch: which was asked for; `None` for the newest.
        new_id: whether the query that starts from it gets an id of its own.
        pin: whether its batch is pinned meanwhile.
        world: its files.
        shape: what is to be other in it than in the query's checkpoint.
        filled: the time at which the last of its files but `metadata` was written.
        whole: that time, its batch and its address, once it became whole; `None` until then.
        started: whether a query has run from it.
        excused: whether what it was made of may have been wrong.
        gone: when the last of its files was deleted.
        expiring: whether somebody has begun to delete it.
    """

    stage: "Stage"
    address: str
    batch: int | None
    new_id: bool
    pin: bool
    world: World
    shape: Shape = SAME
    filled: float = 0.0
    whole: tuple[float, int, str] | None = None
    started: bool = False
    excused: bool = False
    gone: float = float("-inf")
    expiring: bool = False

    def __post_init__(self) -> None:
        self.world.judge = self

    @property
    def query_id(self) -> str | None:
        """Returns the id that a Spark reads; `None` where it refuses to start."""
        file = self.world.files.get("metadata")
        try:
            found = json.loads(file.content)["id"] if file else None
        except (ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, str) and found else None

    @property
    def is_startable(self) -> bool:
        """Returns whether a query would start: without `metadata` it makes one of its own."""
        under = self.world.index.under
        bare = "metadata" not in self.world.files and any(map(under, _OF_A_QUERY))
        return bare or self.query_id is not None

    @property
    def is_whole(self) -> bool:
        return self.whole is not None and not self.started and self.query_id is not None

    def look(self, before: Mapping[str, File | None], doer: Doer | None) -> None:
        """Judges a change of somebody's; `None` is the query that was started from here."""
        self.gone = self.gone if self.world.files else self.world.clock
        self.expiring = bool(self.world.files) and (self.expiring or _expires(doer))
        if doer and doer.verb == "savepoint" and any(map(_is_part, before)):
            self.filled = self.world.clock
        ours = all(path.startswith("_statemaint/") for path in before)
        if doer is None or ours:
            return
        savepoints = self.stage.savepoints
        self.excused |= savepoints.misled(doer)
        if doer.verb == "expire" and savepoints.keeps(self, doer):
            raise Loss(f"S23: {doer.run} touched {[*before]} of {self.address}, the newest one")
        if self.started:
            changed = (path for path, file in before.items() if file != self.world.files.get(path))
            if mine := [path for path in changed if path.startswith(_OF_A_QUERY)]:
                raise Loss(f"S23: {doer.run} ({doer.verb}) touched {mine} of {self.address}, from "
                           "which a query has started")  # fmt: skip
        elif self.is_startable and not self._is_late(doer):
            self._startable(doer)

    def _startable(self, doer: Doer) -> None:
        if why := self._broken():
            if self.world.is_late(doer):
                return  # paused for longer than its lease in this very write
            raise Loss(f"S23: {doer.run} ({doer.verb}) left {self.address} startable, and {why}")
        if not self.whole:
            self.whole = (self.filled, max(self.world.index.commits), self.address)

    def _is_late(self, doer: Doer) -> bool:
        """Returns whether a run that was paused for days only now ends a write, into nothing."""
        return doer.begun <= self.gone and "metadata" not in self.world.files

    def _broken(self) -> str | None:
        """Returns what a query that starts from here would miss, or find wrong."""
        files, mine = self.world.files, self.query_id == self.stage.savepoints.id
        if self.query_id is None or mine == self.new_id:
            return f"its id is {self.query_id}, a new one was wanted: {self.new_id}"
        offsets = sorted(int(one[8:]) for one in self.world.index.under("offsets/") if _named(one))
        newest = files.get(f"offsets/{max(offsets, default=0)}")
        truth = self._truth(newest.content) if newest else None
        if truth is None:
            return f"its offsets {offsets} are of no batch that was committed"
        batch = truth.version - 1
        commits = sorted(self.world.index.commits)
        if offsets != [*range(max(0, batch - 1), batch + 1)] or commits != [batch]:
            return f"of batch {batch} it has the offsets {offsets}, and the commits {commits}"
        stores = {one for one, live in self.world.index.live.items() if live}
        # Of an operator that was removed, somebody may have moved the state aside before a rewind.
        live = self.stage.world.index.live
        there = {_operator(one) for one in truth.states if live[one]}
        wanted = self._wanted(truth)
        aside = {one for one in wanted if _operator(one) not in there}
        if stores | aside != {*wanted} | aside:
            return f"it has the stores {sorted(stores)}, the query's would be {sorted(wanted)}"
        wrong = (self._wrong(one, wanted[one], truth) for one in sorted(stores))
        return next(filter(None, wrong), None)

    def _truth(self, offsets: bytes) -> Truth | None:
        """Returns what is true after a batch, by its entry, which says another shape."""
        after = self.stage.query.after
        if self.shape == SAME:
            return after.get(offsets)
        settings = {_CODEC: self.shape.codec, _PARTITIONS: self.shape.partitions}
        other = {name: str(value) for name, value in settings.items() if value is not None}
        if self.shape.provider:
            other[_PROVIDER] = f"{_CLASSES}.{self.shape.provider}"
        same = (one for one in after if _parsed(one, other) == _parsed(offsets))
        return next((after[one] for one in same), None)

    def _wanted(self, truth: Truth) -> dict[str, State]:
        """Returns the true state of each store of the savepoint."""
        known = self.stage.query.states.known
        states = {one: self._stored(known[number]) for one, number in truth.states.items()}
        if self.shape.partitions is None:
            return states
        partitions = range(self.shape.partitions)
        wanted: dict[str, State] = {
            f"state/{operator}/{one}": {} for operator in map(_operator, states)
            for one in partitions
        }  # fmt: skip
        for directory, state in states.items():
            for key, value in state.items():
                partition = partition_of(key, len(partitions))
                wanted[f"state/{_operator(directory)}/{partition}"][key] = value
        return wanted

    def _stored(self, state: State) -> State:
        """Returns a state as the provider of the savepoint has it."""
        if self.shape.provider is None:
            return state
        rocks = self.shape.provider is Provider.ROCKSDB
        return {for_provider(key, rocks=rocks): for_provider(value, rocks=rocks)
                for key, value in state.items()}  # fmt: skip

    def _loader(self, truth: Truth) -> Loader:
        """Returns what loads the savepoint as a Spark would."""
        before, shape = self.stage.query.loader, self.shape
        states = before.states
        if shape.codec is not None:
            states = replace(states, codec=shape.codec, steps={})
        if shape.provider is not None:
            kind = RocksLoader if shape.provider is Provider.ROCKSDB else Loader
            return kind(self.world, states)
        loader = replace(before, world=self.world, states=states)
        if isinstance(loader, RocksLoader):
            loader.named = truth.families
        return loader

    def _wrong(self, directory: str, wanted: State, truth: Truth) -> str | None:
        loader, version = self._loader(truth), truth.version
        (path, *others), tables = [*self.world.index.live[directory]], set[str]()
        one = spot(path)
        if others or one is None or (one.kind, one.version) != ("snapshot", version):
            return f"{directory} has {[path, *others]} of version {version}"
        if path.endswith(".zip"):
            tables = {
                f"{directory}/SSTs/{name}" for name in tables_of(self.world.files[path].content)
            }
        if tables != {*self.world.index.under(f"{directory}/SSTs/")}:
            return f"{directory} has other tables than {path} names"
        read = loader.load(directory, [version])[version]
        if (read.state, read.base, read.paths) == (loader.states.of(wanted), path, ()):
            return None
        if read.state is not None and self.excused:
            self.stage.tally["savepoints of what was wrong"] += 1
            return None
        return f"{directory} {'no longer loads' if read.state is None else 'loads a wrong state'}"


def _parsed(offsets: bytes, other: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Returns an entry of the offset log, with some other settings."""
    head, fields, *rest = offsets.decode().split("\n")
    found = json.loads(fields)
    found["conf"] |= other
    return head, found, rest


def _operator(directory: str) -> str:
    return directory.split("/")[1]


def _expires(doer: Doer | None) -> bool:
    return doer is not None and doer.verb == "expire"


def _is_part(path: str) -> bool:
    """Returns whether a savepoint consists of a file; `metadata` only says that it is whole."""
    *folders, name = path.split("/")
    return folders[:2] != ["_statemaint", "lease"] and not name.startswith(
        ("metadata", ".metadata")
    )


def _named(path: str) -> bool:
    return path[8:].isdecimal()


def _newness(dest: Dest) -> tuple[float, int, str]:
    return dest.whole or (0.0, 0, "")


@dataclass(slots=True)
class Savepoints:
    """All savepoints of a query.

    Attributes:
        stage: where the query lives.
        dests: their folders.
        ahead: the seconds by which their clocks are ahead.
        points: how many points the last one had.
        newest: the newest one when an expiry began, by its run.
    """

    stage: "Stage"
    dests: list[Dest] = field(default_factory=list)
    ahead: float = 0.0
    points: int = 80
    newest: dict[str, Dest | None] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Returns the query's id."""
        found: str = json.loads(self.stage.world.files["metadata"].content)["id"]
        return found

    def sync(self) -> None:
        """Lets as much time have passed in each folder as in the query's."""
        now = self._now()
        for one in self.dests:
            one.world.clock = now

    def _now(self) -> float:
        clocks = (one.world.clock for one in self.dests)
        return max(self.stage.world.clock + self.ahead, *clocks, 0.0)

    def new(
        self,
        batch: int | None,
        *,
        new_id: bool,
        pin: bool,
        local: bool,
        garbles: bool,
        shape: Shape,
    ) -> Dest:
        """Returns a new folder, which may store the first snapshot wrong."""
        stage = self.stage
        world = World(local=local, clock=self._now(), log=stage.log)
        if garbles:
            world.garble = stage.query.wrong(stage.stores[0], b"garbled", shape.codec)
            stage.tally["savepoints garbled"] += 1
        address = f"{FOLDER}/{len(self.dests)}"
        self.dests.append(Dest(stage, address, batch, new_id, pin, world, shape))
        return self.dests[-1]

    def misled(self, doer: Doer) -> bool:
        """Returns whether who writes a savepoint may read what is wrong, or of two times."""
        certificate = self.stage.certificate
        return doer.run in certificate.overtaken or any(map(certificate._is_bad, certificate.bad))

    def _newest(self) -> Dest | None:
        whole = (one for one in self.dests if one.is_whole)
        return max(whole, key=_newness, default=None)

    def keeps(self, dest: Dest, doer: Doer) -> bool:
        """Returns whether an expiry must keep a savepoint as the newest whole one."""
        was = self.newest.get(doer.run)
        return was is dest and not any(_newness(one) > _newness(dest) for one in self.dests)

    # -- what a maintainer does

    def save(self, dest: Dest, seat: Seat, doer: Doer) -> None:
        savepoint(
            seat,
            seat.beside(dest.world, dest.address),
            batch=dest.batch,
            new_id=dest.new_id,
            pin=dest.pin,
            shape=dest.shape,
            workers=doer.workers,
        )

    def expire(self, last: int, seat: Seat, doer: Doer) -> None:
        """Deletes those that expire, as `savepoints --keep last=K --delete` does."""
        self.newest[doer.run] = self._newest()
        storages: dict[str, Storage] = {
            one.address: seat.beside(one.world, one.address) for one in self.dests
        }
        looks = (look(storage, address) for address, storage in storages.items())
        folder = seat.beside(World(clock=self._now()), FOLDER)
        found = [one for one in looks if one]
        decisions = decide(found, {"last": last}, folder.now())
        opened = {**storages, FOLDER: folder}
        deque(carry_out(decisions, FOLDER, opened=opened.__getitem__), maxlen=0)


def pinned_by_clock(storage: Storage, batch: int, *, by: str) -> AbstractContextManager[Pin]:
    """Pins a batch in a world whose clock stands still while nobody acts."""
    assert isinstance(storage, Seat)
    return pinned(storage, batch, by=by, wait=storage.passes)
