"""An hour of a query's life on a far bucket: what its maintenance asks and computes."""

from dataclasses import dataclass
from pathlib import Path

from statemaint.model.policy import Policy
from statemaint.report.task import dumped
from statemaint.spark import Target
from statemaint.storage import Storage
from tests.benchmarks.cases import Case
from tests.benchmarks.far import far_bucket
from tests.benchmarks.fleet.child import Step, Took
from tests.benchmarks.fleet.engines import work
from tests.benchmarks.fleet.prices import Hour
from tests.benchmarks.fleet.shapes import Shape, generate
from tests.support.checkpoints import offsets_bytes

# Spark keeps so many batches, and a query of one batch a minute adds so many an hour.
RETAINED, A_MINUTE = 100, 60
POLICY = Policy(grace=0)
_FIRST = RETAINED + 60
_COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
STATES = ("after neglect", "nothing is due", "after 60 batches")


@dataclass(frozen=True, slots=True)
class Query:
    """A query in a bucket, whose state has tiny stores.

    Attributes:
        storage: its checkpoint.
        template: the generated checkpoint, whose deltas are added again under later versions.
        stores: the number of its stores.
    """

    storage: Storage
    template: Path
    stores: int

    def log(self, batches: range) -> None:
        """Adds batches to its logs, and purges what is older than what Spark retains."""
        conf = {"shuffle.partitions": str(self.stores)}
        for batch in batches:
            self.storage.replace(f"offsets/{batch}", [offsets_bytes(conf)])
            self.storage.replace(f"commits/{batch}", [_COMMIT])
        for entry in [*self.storage.list("offsets"), *self.storage.list("commits")]:
            if int(entry.name) < batches[-1] - RETAINED:
                self.storage.delete(entry.path)

    def go_on(self, last: int, batches: int) -> None:
        """Adds some batches, each with a delta in every store."""
        for store in range(self.stores):
            folder = f"state/0/{store}"
            for version in range(last + 1, last + batches + 1):
                content = (self.template / folder / f"{version - last + 1}.delta").read_bytes()
                self.storage.replace(f"{folder}/{version}.delta", [content])
        self.log(range(last, last + batches))


def measured(stores: int, folder: Path, engine: str) -> dict[str, Took]:
    """Returns what maintenance takes in each of `STATES`, for a query of some stores."""
    case = Case("hours", rows=16, deltas=_FIRST, share=0.25, inserts=0.0, base=0, partitions=stores)
    root = generate(Shape("hours", case, queries=2), folder).root  # the second one is to warm up
    step, warm = (
        Step("maintain", [dumped(Target(f"q{one}", f"s3://far/{one}", POLICY))]) for one in (0, 1)
    )
    with far_bucket(root, 0) as bucket:
        for one in "10":
            query = Query(bucket.storage(one), root / one, stores)
            query.log(range(_FIRST - RETAINED - 1, _FIRST))
        _, neglected, idle = work(engine, [step, step], warm=[warm], bucket=bucket)
        query.go_on(_FIRST, A_MINUTE)
        _, due = work(engine, [step], warm=[warm], bucket=bucket)
    return dict(zip(STATES, (neglected, idle, due), strict=True))


def hour_of(took: Took) -> Hour:
    """Returns one run in an hour."""
    return Hour(dict(took.asked), took.usage.all)


def hourly_job(idle: Hour, due: Hour, deltas: int = POLICY.min_deltas_for_snapshot) -> Hour:
    """Returns an hour of a query with one batch an hour: a snapshot is due in one of some hours."""
    return idle.times(deltas / (deltas + 1)) + due.times(1 / (deltas + 1))
