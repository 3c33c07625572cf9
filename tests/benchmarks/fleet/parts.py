"""The parts of the fleet benchmark: what each measures, and its lines in the tables."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.fleet import hours, tables
from tests.benchmarks.fleet.child import THREADS, Took
from tests.benchmarks.fleet.engines import (
    CLUSTER,
    DISK,
    EIGHT_SLOTS,
    ENGINES,
    ONE_CORE,
    ONE_WORKER,
    TWO_CORES,
    VERBS,
    Place,
    run,
)
from tests.benchmarks.fleet.prices import Hour, wider
from tests.benchmarks.fleet.shapes import (
    EVEN,
    FAR_QUERIES,
    FEWER_QUERIES,
    LARGER_STORES,
    LARGEST,
    MANY_FILES,
    MANY_QUERIES,
    SKEWED,
    Fleet,
    Shape,
    generate,
)
from tests.benchmarks.fleet.usage import DRIVER, DRIVER_JVM, EXECUTOR, WORKER
from tests.benchmarks.tables import Results, seconds, times

FAR = Place(30)
_WIDTHS, _STORES, _QUERIES = (8, 80), 800, 1_000


@dataclass(frozen=True, slots=True)
class Bench:
    """How to measure, and where the results go.

    Attributes:
        folder: where the generated fleets are.
        repeat: how many times each engine has its turn.
        results: the tables.
        engines: the engines that are measured; all by default.
    """

    folder: Path
    repeat: int
    results: Results
    engines: Collection[str] = ENGINES

    def fleet(self, shape: Shape) -> Fleet:
        """Returns a fleet, which is generated where it is not there yet."""
        self.results.say(f"{shape.name}: generating")
        return generate(shape, self.folder)

    def best(
        self,
        engines: Iterable[str],
        fleets: Sequence[Fleet],
        place: Place = DISK,
        verbs: Sequence[str] = VERBS,
    ) -> dict[str, list[Took]]:
        """Returns the quickest of each step by each engine that is wanted; they take turns."""
        wanted = [one for one in engines if one in self.engines]
        turns: dict[str, list[list[Took]]] = {one: [] for one in wanted}
        for turn in range(self.repeat):
            for engine, taken in turns.items():
                names = " and ".join(one.shape.name for one in fleets)
                self.results.say(f"{names}, {place}: {engine}, turn {turn + 1}")
                taken.append(run(engine, fleets, self.folder, place=place, verbs=verbs))
        return {engine: quickest(taken) for engine, taken in turns.items()}


def quickest(runs: Sequence[Sequence[Took]]) -> list[Took]:
    """Returns of each step the run that took the least time."""
    return [min(steps, key=lambda one: one.seconds) for steps in zip(*runs, strict=True)]


def measured(
    bench: Bench, fleet: Fleet, engines: Sequence[str], place: Place = DISK
) -> Mapping[str, Sequence[Took]]:
    """Measures every verb of some engines on a fleet, adds their lines, and returns them."""
    found = bench.best(engines, [fleet], place)
    for engine, steps in found.items():
        for took in steps:
            _add(bench, fleet.shape, place, engine, took)
    return found


def even(bench: Bench, shape: Shape, engines: Sequence[str], place: Place = DISK) -> None:
    """Measures every verb of some engines on an even fleet."""
    fleet = bench.fleet(shape)
    found = measured(bench, fleet, engines, place)
    if ONE_CORE in found and TWO_CORES in found:
        _ratio(bench, fleet.shape, found, ONE_CORE, TWO_CORES)
    if ONE_WORKER in found and CLUSTER in found:
        _ratio(bench, fleet.shape, found, ONE_WORKER, CLUSTER)
    if THREADS in found and TWO_CORES in found:
        _overhead(bench, fleet.shape, place, found)
    if THREADS in found and ONE_CORE in found:
        _slower(bench, fleet.shape, found)


def _add(bench: Bench, shape: Shape, place: Place, engine: str, took: Took) -> None:
    usage = took.usage
    each = "" if took.verb == "start" else f"{usage.all / shape.stores * 1000:.2f}"
    bench.results.add(
        tables.ENGINES,
        shape.name,
        str(place),
        engine,
        took.verb,
        seconds(took.seconds),
        seconds(usage.all),
        each,
        seconds(usage.cpu[DRIVER_JVM] + usage.cpu[EXECUTOR]),
        f"{usage.peak[DRIVER]:.0f} + {usage.peak[DRIVER_JVM]:.0f}",
        f"{usage.peak[WORKER]:.0f}",
        _requests(took.asked),
    )


def _requests(asked: Mapping[str, int]) -> str:
    return f"{sum(asked.values()):,}" if asked else ""


def _maintain(steps: Iterable[Took]) -> Took:
    return next(one for one in steps if one.verb == "maintain")


def _ratio(
    bench: Bench, shape: Shape, found: Mapping[str, Sequence[Took]], less: str, more: str
) -> None:
    one, two = (_maintain(found[engine]) for engine in (less, more))
    fact(bench, f"{shape.name} stores, maintain: {less} ÷ {more}, seconds",
         "at least 1.7", times(one.seconds / two.seconds))  # fmt: skip


def _overhead(
    bench: Bench, shape: Shape, place: Place, found: Mapping[str, Sequence[Took]]
) -> None:
    alone, spread = (_maintain(found[engine]) for engine in (THREADS, TWO_CORES))
    more = (spread.usage.all - alone.usage.all) / shape.stores * 1000
    fact(bench, f"{shape.name} stores, {place}, maintain: CPU ms a store beyond one machine's",
         "at most 5", f"{more:.2f}")  # fmt: skip


def _slower(bench: Bench, shape: Shape, found: Mapping[str, Sequence[Took]]) -> None:
    alone, spread = (_maintain(found[engine]) for engine in (THREADS, ONE_CORE))
    more = (spread.seconds - alone.seconds) / shape.stores * 1000
    fact(bench, f"{shape.name} stores, maintain: ms a store of local[1] beyond one machine's",
         "at most 5", f"{more:.2f}")  # fmt: skip


def fact(bench: Bench, what: str, asked: str, found: str) -> None:
    """Adds a line to the table of what was asked."""
    bench.results.add(tables.ASKED, what, asked, found)


def driver(bench: Bench, stores: tuple[int, int]) -> None:
    """Measures the driver's memory for a fleet, and for ten times as many stores."""
    peaks = []
    for number in stores:
        fleet = bench.fleet(EVEN[number])
        (_, took) = bench.best([CLUSTER], [fleet], verbs=["maintain"])[CLUSTER]
        peaks.append(took.usage.driver)
        peak = took.usage.peak
        bench.results.add(
            tables.MEMORY,
            f"{number:,}",
            f"{took.usage.driver:.0f}",
            f"{peak[DRIVER]:.0f} + {peak[DRIVER_JVM]:.0f}",
            f"{peak[WORKER]:.0f}",
            f"{peak[EXECUTOR]:.0f}",
        )
    fact(bench, f"driver's memory, {stores[1]:,} stores ÷ {stores[0]:,}",
         "under 1.5", times(peaks[1] / peaks[0]))  # fmt: skip


def skewed(bench: Bench) -> None:
    """Measures a fleet with one store of half of all bytes beside that store alone."""
    alone, fleet = bench.fleet(LARGEST), bench.fleet(SKEWED)
    runs = []
    for turn in range(bench.repeat):
        bench.results.say(f"skewed: local[2], turn {turn + 1}")
        fleets = [alone, alone, fleet]  # the first one loads the loops
        runs.append(run(TWO_CORES, fleets, bench.folder, verbs=["maintain"], warm=alone))
    _, _, own, took = quickest(runs)
    fact(bench, f"1,001 stores, half of the bytes in one: seconds ÷ that one's own "
         f"({seconds(took.seconds)} ÷ {seconds(own.seconds)})",
         "within 1.3", times(took.seconds / own.seconds))  # fmt: skip


def many_queries(bench: Bench) -> None:
    """Measures thousands of small queries beside a tenth of them: the time of each, the memory."""
    shapes = FEWER_QUERIES, MANY_QUERIES
    some, all_ = (measured(bench, bench.fleet(one), [THREADS, TWO_CORES]) for one in shapes)
    times_more = MANY_QUERIES.queries / FEWER_QUERIES.queries
    for engine in all_:
        few, many = _maintain(some[engine]), _maintain(all_[engine])
        named = f"{MANY_QUERIES.queries:,} queries ÷ {FEWER_QUERIES.queries:,}, {engine}"
        fact(bench, f"{named}, maintain: seconds of a query",
             "within 1.2", times(many.seconds / few.seconds / times_more))  # fmt: skip
        fact(bench, f"{named}, maintain: memory of the driver's Python",
             "under 1.5", times(many.usage.peak[DRIVER] / few.usage.peak[DRIVER]))  # fmt: skip
    if TWO_CORES in all_:
        hours = _maintain(all_[TWO_CORES]).seconds / MANY_QUERIES.stores * 1e6 / 3600
        fact(bench, "1,000,000 stores in 50,000 queries, local[2], maintain: hours, extrapolated",
             "", f"{hours:.2f}")  # fmt: skip


def many_files(bench: Bench) -> None:
    """Measures inventory and plan of 100,000 files."""
    verbs = VERBS[:2]
    fleets = [bench.fleet(shape) for shape in MANY_FILES]
    for engine, steps in bench.best([THREADS, TWO_CORES], fleets, verbs=verbs).items():
        shapes = [shape for shape in MANY_FILES for _ in verbs]
        for shape, took in zip(shapes, steps[1:], strict=True):
            _add(bench, shape, DISK, engine, took)
            if engine == TWO_CORES:
                fact(bench, f"{shape.name}: {took.verb}, seconds in local[2] (CPU seconds)",
                     "under 4", f"{seconds(took.seconds)} ({seconds(took.usage.all)})")  # fmt: skip


def hour(bench: Bench, engine: str) -> None:
    """Counts what maintenance by an engine asks for in an hour, and what a fleet's costs."""
    found = []
    for stores in _WIDTHS:
        bench.results.say(f"an hour: {stores} stores")
        measured = hours.measured(stores, bench.folder, engine)
        found.append({name: hours.hour_of(took) for name, took in measured.items()})
        for name, one in found[-1].items():
            label = f"{engine}: {stores} stores, {name}"
            bench.results.add(tables.REQUESTS, label, *_counts(one))
    narrow, wide = found
    single = {
        name: wider(narrow[name], wide[name], stores=_WIDTHS, to=_STORES) for name in hours.STATES
    }
    _costs(bench, engine, single)


def _counts(one: Hour) -> list[str]:
    kinds = ("LIST", "GET", "HEAD", "PUT", "DELETE", "DELETE of many")
    return [f"{one.requests.get(kind, 0):,.0f}" for kind in kinds] + [f"{one.cpu:.1f}"]


def _costs(bench: Bench, engine: str, single: Mapping[str, Hour]) -> None:
    neglected, idle, due = (single[name] for name in hours.STATES)
    lines = {
        "an hourly job: a batch an hour": hours.hourly_job(idle, due),
        "a long-running query: a batch a minute": due,
        "nothing is due": idle,
        "the first run, after neglect (once)": neglected,
    }
    for name, one in lines.items():
        fleet = one.times(_QUERIES)
        asked, computed = fleet.money
        bench.results.add(
            tables.COSTS, f"{engine}: {name}", f"{fleet.requests.get('LIST', 0):,.0f}",
            f"{fleet.requests.get('GET', 0) + fleet.requests.get('HEAD', 0):,.0f}",
            f"{fleet.requests.get('PUT', 0):,.0f}", f"{fleet.all / 3600:,.0f}",
            f"{fleet.cores:.1f}", f"{asked:,.2f}", f"{computed:,.2f}",
        )  # fmt: skip


PARTS: dict[str, Callable[[Bench], object]] = {
    "1000": lambda bench: even(bench, EVEN[1_000], [THREADS, ONE_CORE, TWO_CORES, CLUSTER]),
    "10000": lambda bench: even(bench, EVEN[10_000], [THREADS, ONE_CORE, TWO_CORES, CLUSTER]),
    "50000": lambda bench: even(bench, EVEN[50_000], [THREADS, TWO_CORES]),
    "far": lambda bench: even(bench, EVEN[1_000], [THREADS, TWO_CORES, CLUSTER], FAR),
    "queries": many_queries,
    "far-queries": lambda bench: measured(bench, bench.fleet(FAR_QUERIES), [EIGHT_SLOTS], FAR),
    "workers": lambda bench: even(bench, LARGER_STORES, [ONE_WORKER, CLUSTER]),
    "driver": lambda bench: driver(bench, (1_000, 10_000)),
    "skewed": skewed,
    "files": many_files,
    "hour": lambda bench: hour(bench, THREADS),
    "hour-spark": lambda bench: hour(bench, TWO_CORES),
}
AT_SIZE = ("queries", "far-queries", "workers")
"""Parts that have tables of their own, as each takes a quarter of an hour."""
