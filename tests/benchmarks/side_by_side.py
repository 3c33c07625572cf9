"""Spark, ours and the floor on the same files, and the memory that ours takes."""

from tests.benchmarks import floor, ours
from tests.benchmarks.bench import Bench, Fold, snapshot
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import Input, copy_of
from tests.benchmarks.measure import Seconds
from tests.benchmarks.processes import in_child
from tests.benchmarks.rows import KINDS
from tests.benchmarks.spark import Spark, SparkSeconds
from tests.benchmarks.tables import MEMORY, TIMES, mib, seconds, steps, times

HEAP = "6g"
# So many repetitions the JVM needs to compile what it runs; later ones are no faster.
SPARK_WARM_UP = 7
# Room for 34 million rows in Java objects; it runs once, warmed up by a smaller case.
_LARGE_HEAP = "12g"


def run(bench: Bench, case: Case) -> None:
    """Measures a case whole."""
    given = bench.prepare(case)
    fold = bench.fold(given)
    _add_times(bench, given, fold, bench.maintain(given), _spark(bench, given))
    memory(bench, given)


def run_large(bench: Bench, case: Case, doubled: Case, warm_up: Case) -> None:
    """Measures a case once, ours in processes of their own."""
    given = bench.prepare(case)
    with copy_of(given) as root:
        bench.results.say(f"{case.name}: fold + write")
        fold = in_child("fold", root, case.last)
        _add_memory(bench, given, fold)
        expected = ours.digest_of(root, case.last)
        payload = floor.payload(snapshot(given, root))
    measured = Fold(
        Seconds(fold["seconds"], fold["cpu"]), bench.floor(given, payload), len(payload)
    )
    del payload  # Spark needs the memory
    with copy_of(given) as root:
        bench.results.say(f"{case.name}: maintain")
        whole = in_child("maintain", root, case.last)["seconds"]
    spark = _spark_once(bench, given, expected, bench.prepare(warm_up))
    _add_times(bench, given, measured, whole, spark)
    memory(bench, bench.prepare(doubled))


def memory(bench: Bench, given: Input) -> None:
    """Measures how much memory our fold takes."""
    bench.results.say(f"{given.case.name}: memory")
    with copy_of(given) as root:
        _add_memory(bench, given, in_child("fold", root, given.case.last))


def _spark(bench: Bench, given: Input) -> SparkSeconds | None:
    """Returns Spark's median, once its snapshot was found to hold the same rows as ours."""
    if bench.sparks is None:
        return None
    spark = bench.sparks.with_heap(HEAP)
    bench.results.say(f"{given.case.name}: Spark")
    with copy_of(given) as root:
        ours.fold_and_write(root, given.case.last)
        expected = ours.digest_of(root, given.case.last)
    _once(spark, given, expected)
    samples = [_once(spark, given) for _ in range(SPARK_WARM_UP + bench.repeat)]
    return sorted(samples[SPARK_WARM_UP:], key=lambda one: one.total)[bench.repeat // 2]


def _spark_once(bench: Bench, given: Input, expected: str, warm_up: Input) -> SparkSeconds | None:
    if bench.sparks is None:
        return None
    spark = bench.sparks.with_heap(_LARGE_HEAP)
    bench.results.say(f"{given.case.name}: Spark")
    for _ in range(SPARK_WARM_UP):
        _once(spark, warm_up)
    return _once(spark, given, expected)


def _once(spark: Spark, given: Input, expected: str | None = None) -> SparkSeconds:
    """Returns what Spark takes once; its snapshot must have the expected digest."""
    case = given.case
    with copy_of(given) as root:
        spark.collect()
        took = spark.maintain(root, KINDS[case.kind], version=case.last)
        if expected and (found := ours.digest_of(root, case.last)) != expected:
            raise AssertionError(f"{case.name}: Spark wrote {found}, we wrote {expected}")
    return took


def _add_times(
    bench: Bench, given: Input, fold: Fold, whole: float, spark: SparkSeconds | None
) -> None:
    facts, low, both = given.facts, fold.floor, (fold.ours.wall, whole)
    bench.results.add(
        TIMES,
        given.case.name,
        f"{mib(facts.base_payload)} + {mib(facts.delta_payload)}",
        mib(fold.out),
        steps(spark.load.wall, spark.write.wall) if spark else "-",
        *map(seconds, both),
        steps(low.read.wall, low.write.wall),
        *(times(spark.total / one) if spark else "-" for one in both),
        *map(times, (*fold.ratios, whole / low.total.wall)),
    )


def _add_memory(bench: Bench, given: Input, told: dict[str, float]) -> None:
    facts, imports, peak = given.facts, told["imports"], told["peak"]
    sizes = (facts.base_payload, facts.delta_payload, facts.delta_keys)
    bench.results.add(
        MEMORY,
        given.case.name,
        *(f"{one:,.0f}" for one in (imports, peak, peak - imports)),
        *(mib(size) for size in sizes),
    )
