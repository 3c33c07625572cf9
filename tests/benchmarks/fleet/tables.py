"""The tables of `docs/scale.md`."""

from tests.benchmarks.fleet.prices import ASSUMED, PER_CORE_HOUR, PER_THOUSAND
from tests.benchmarks.tables import Section

ASKED = Section(
    "Goals",
    "What the engine is held to, and what was measured.",
    ("what", "goal", "measured"),
)
ENGINES = Section(
    "Engines",
    "*start* is a session and its first, small fleet. *CPU* is that of all processes, *JVMs* the "
    "part of it in Spark's own. The driver's memory is its Python + its JVM, which in `local` mode "
    "is the executors', too; the workers' is that of the largest Python worker. *threads* is one "
    "process without Spark, as `statemaint` runs: the queries one after another.",
    ("stores", "place", "engine", "verb", "seconds", "CPU s", "CPU ms a store", "JVMs' CPU s",
     "driver, MiB", "worker, MiB", "requests"),
)  # fmt: skip
MEMORY = Section(
    "Memory of the driver",
    "The most that each process had resident during *maintain* on a cluster of two workers.",
    ("stores", "driver, MiB", "Python + JVM", "a worker", "an executor's JVM"),
)
REQUESTS = Section(
    "Requests of a run",
    "Of *maintain* of one query, by either engine, counted by the server. Tiny stores; the logs "
    "have a hundred batches. *After neglect* is a first run on 160 deltas without a snapshot.",
    ("query", "LIST", "GET", "HEAD", "PUT", "DELETE", "DELETE of many", "CPU s"),
)
COSTS = Section(
    "1,000 queries of 800 stores, an hour",
    "From the table above, by the line through its two widths. In dollars, at the assumed prices "
    f"of {ASSUMED}: {PER_THOUSAND['PUT']} per 1,000 PUT or LIST, {PER_THOUSAND['GET']} per 1,000 "
    f"GET or HEAD, nothing for deletions, {PER_CORE_HOUR} for a core and hour.",
    ("maintained every hour", "LIST", "GET and HEAD", "PUT", "requests a second", "cores",
     "requests, $", "cores, $"),
)  # fmt: skip
SECTIONS = (ASKED, ENGINES, MEMORY, REQUESTS, COSTS)
