"""What the benchmarks say: tables on the terminal as they go, and in the document at the end."""

from collections import defaultdict
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

# No table is cut, not even where the output goes to a file.
_WIDTH = 180


@dataclass(frozen=True, slots=True)
class Section:
    """One table: its heading, what to know when reading it, and its columns."""

    title: str
    note: str
    columns: tuple[str, ...]


TIMES = Section(
    "Side by side",
    "Seconds by the clock, median of {repeat}; payloads in MiB, the base's + the deltas'. *Spark* "
    "is load + write. *Fold + write* is our engine in one thread; *maintain* is the whole run: "
    "scan, plan, fold, write, read back and compare, note in the ledger. The *floor* is decompress "
    "+ compress. *large* is measured once, ours in a new process, Spark with 12 GiB of heap.",
    ("case", "payload in", "out", "Spark", "fold + write", "maintain", "floor",
     "Spark ÷ fold", "Spark ÷ maintain", "fold ÷ floor", "by CPU", "maintain ÷ floor"),
)  # fmt: skip
MEMORY = Section(
    "Memory",
    "MiB, of fold + write in a new process: resident at most, and after the imports alone. "
    "The payloads are there for comparison, uncompressed.",
    ("case", "after imports", "peak", "more", "base", "deltas", "keys of the deltas"),
)
ROCKS = Section(
    "RocksDB",
    "Seconds by the clock, median of {repeat}. *Spark* is load + make and upload a snapshot, by "
    "`RocksDBStateStoreProvider` in a warm JVM; *ours* builds a snapshot with RocksDB and writes "
    "its files, and then reads them back whole and compares. *By CPU* is Spark ÷ ours once more.",
    ("case", "rows", "changes", "MiB stored", "Spark", "ours", "ours, read back",
     "Spark ÷ ours", "Spark ÷ ours, read back", "by CPU"),
)  # fmt: skip
BREAKDOWN = Section(
    "Where the time goes",
    "Milliseconds of one fold + write of *aggregation*, median of {repeat}, each step timed by "
    "itself; the timing is part of it. Decompressing and compressing are what the floor does too.",
    ("step", "ms"),
)
TINY = Section(
    "Ten thousand partitions of 1 KB",
    "Twelve deltas each. Ours is the whole of maintain. {sampled}",
    ("what", "seconds", "CPU seconds", "CPU ms a partition"),
)
GROWTH = Section(
    "How the cost grows",
    "Fold + write against the floor, from a million rows with fifteen deltas of 5 % where not said "
    "otherwise. A record is a row of the base, or a put or removal in a delta.",
    ("changed", "records", "fold + write", "floor", "fold ÷ floor", "by CPU", "ns a record"),
)
THREADS = Section(
    "Two threads",
    "Fold + write of two partitions, one after the other and in two threads at once. Hashing shows "
    "what a second thread could bring at best when that was measured.",
    ("case", "one after the other", "two threads", "times as fast"),
)
PROCESS = Section(
    "A process of its own",
    "CPU seconds, median of {repeat}, with compiled loops that an earlier process has left; the "
    "imports alone are of exactly the modules that it had loaded at its end. *small* is one "
    "partition of 1 KB.",
    ("process", "CPU seconds", "imports alone", "more", "numba loaded", "numpy loaded"),
)
DISTANCE = Section(
    "A bucket far away",
    "Seconds by the clock and of our CPU; what was asked of the server, and how much of it at once "
    "at most. The server (`tests/benchmarks/far_server.py`) is a small one in memory whose answers "
    "come that much later; boto3 is the client. *Maintain* writes two snapshots a store.",
    ("case", "each answer takes", "verb", "seconds", "CPU seconds", "requests", "at once"),
)
REQUESTS = Section(
    "Requests",
    "What `maintain` sends to a bucket of which each answer takes 30 ms, counted by the server and "
    "equal to what `--json` says. The server (`tests/benchmarks/far_server.py`) is one in memory, "
    "with the settings of a new bucket of AWS; boto3 is the client. *At most* is the goal. Of the "
    "32 stores of 40 deltas, each delta is read, each snapshot written and read back, and each "
    "store's files deleted: 1,440 requests.",
    ("run", "requests", "at most", "seconds"),
)
NEEDS = Section(
    "Memory, estimated before and measured",
    "MiB that one store takes beyond the loaded program, each in a new process: what is estimated "
    "before the store begins (`--memory` is shared out by that), and the peak.",
    ("case", "verb", "estimate", "peak", "estimate ÷ peak"),
)
STORES = Section(
    "Several stores at a time",
    "*Maintain* of a checkpoint on local disk, in new processes with loaded loops, which take "
    "turns; the least of {repeat} runs. *Peak* is the most that the whole process had resident. "
    "*2 processes* maintain a copy each at the same time, and the figures are per copy: it is what "
    "the machine's cores can give together.",
    ("case", "workers", "--memory", "seconds", "CPU seconds", "times as fast", "peak, MB"),
)
LARGE_SAVEPOINT = Section(
    "A savepoint of 2 GiB",
    "Seconds, median of {repeat}; *savepoint* and *maintain* fold the same chain into one "
    "snapshot, write it and read it back, on local disk, in new processes that take turns. *Peak* "
    "is the most that the whole process had resident. The goal is 350 MiB, and 1.3 times at most.",
    ("case", "verb", "seconds", "CPU seconds", "÷ maintain", "peak, MiB"),
)
FAR_SAVEPOINTS = Section(
    "A savepoint to a bucket far away",
    "Each store has a snapshot of 200 rows and five deltas, is written to the bucket, and read "
    "back; each answer of the bucket takes 30 ms, and its server counts. The goal is 15 s.",
    ("case", "seconds", "CPU seconds", "requests", "of them", "at once"),
)
SECTIONS = (
    TIMES,
    ROCKS,
    BREAKDOWN,
    MEMORY,
    NEEDS,
    STORES,
    TINY,
    GROWTH,
    THREADS,
    PROCESS,
    DISTANCE,
)


def _wide() -> Console:
    return Console(width=max(_WIDTH, Console().width))


@dataclass(slots=True)
class Results:
    """The lines of every table so far."""

    console: Console = field(default_factory=_wide)
    lines: dict[str, list[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(list))
    facts: dict[str, str] = field(default_factory=lambda: {"repeat": "1", "sampled": ""})
    sections: tuple[Section, ...] = SECTIONS

    def say(self, text: str) -> None:
        """Tells what is going on."""
        self.console.print(f"[dim]{text}[/dim]", highlight=False)

    def add(self, section: Section, *cells: str) -> None:
        """Adds a line to a table, and shows it."""
        self.lines[section.title].append(cells)
        self._show(section, [cells])

    def show_all(self) -> None:
        """Shows every table that has lines."""
        for section in self.sections:
            if lines := self.lines[section.title]:
                self._show(section, lines)

    def _show(self, section: Section, lines: list[tuple[str, ...]]) -> None:
        table = Table(title=section.title, title_justify="left", box=None, pad_edge=False)
        for number, column in enumerate(section.columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=True)
        for cells in lines:
            table.add_row(*cells)
        self.console.print(table)

    def markdown(self, sections: tuple[Section, ...] | None = None) -> str:
        """Returns every table as the document has it, or those of other sections."""
        chosen = self.sections if sections is None else sections
        parts = [_markdown(one, self.lines[one.title], self.facts) for one in chosen]
        return "\n\n".join(part for part in parts if part)


def _markdown(section: Section, lines: list[tuple[str, ...]], facts: dict[str, str]) -> str:
    if not lines:
        return ""
    rule = ["---", *["--:"] * (len(section.columns) - 1)]
    rows = [f"| {' | '.join(cells)} |" for cells in (section.columns, rule, *lines)]
    note = section.note.format(**facts).strip()
    return "\n".join([f"### {section.title}", "", note, "", *rows])


def seconds(value: float) -> str:
    """Returns seconds with three digits that mean something."""
    return f"{value:.{3 if value < 10 else 1}f}"


def steps(first: float, second: float) -> str:
    """Returns a sum of seconds and its two parts."""
    return f"{seconds(first + second)} = {seconds(first)} + {seconds(second)}"


def times(value: float) -> str:
    """Returns a ratio."""
    return f"{value:.{2 if value < 10 else 1}f}"


def mib(count: float) -> str:
    """Returns bytes as MiB."""
    return f"{count / 1024 / 1024:,.{1 if count > 1024 * 1024 else 3}f}"
