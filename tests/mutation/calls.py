"""Which tests call which function, how long each takes, and which to run against a mutant."""

import json
import re
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mutmut.utils.format_utils import mangled_name_from_mutant_name

_PATIENCE = 5.0  # seconds for a mutant, and this many times what its tests took of the real code
_TIMES = 3
_LONG, _QUICK = 1.0, 0.005  # seconds
_NOTICED = 3  # words more are worth a test that noticed another mutant of the function
_CLOSER = 4  # times as many seconds a test may take that has one more word of the function
CODE = "statemaint"
_STEM = re.compile(r"(?<![a-z])[a-z]{4,5}")  # how a word begins


@dataclass(frozen=True, slots=True)
class Job:
    """The tests of one mutant.

    Attributes:
        mutant: its name.
        tests: which to run, in order.
        seconds: of a processor that they may take.
    """

    mutant: str
    tests: tuple[str, ...]
    seconds: float


@dataclass(slots=True)
class Calls:
    """Which tests call which function, and which of them have noticed a mutant of it.

    Attributes:
        tests: by function.
        seconds: of a processor that each test takes.
        failed: those that fail on the real code, run like this; they judge nothing.
        seen: digests of what was looked at: the code, and the file of each test.
    """

    tests: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    _noticed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "Calls":
        """Returns what some processes have written together."""
        whole = cls()
        for path in paths:
            found = json.loads(path.read_text())
            whole.seconds |= found["seconds"]
            whole.failed += found["failed"]
            whole.seen |= found["seen"]
            for function, names in found["tests"].items():
                whole.tests[function] += names
        return whole

    def write(self, path: Path) -> None:
        """Writes what `read` reads."""
        found = {
            "tests": self.tests,
            "seconds": self.seconds,
            "failed": self.failed,
            "seen": self.seen,
        }
        path.write_text(json.dumps(found, indent=1))

    def keep(self, tests: Container[str]) -> None:
        """Forgets all other tests."""
        for function, names in self.tests.items():
            self.tests[function] = [one for one in names if one in tests]
        self.seconds = {one: time for one, time in self.seconds.items() if one in tests}
        self.failed = [one for one in self.failed if one in tests]

    def keep_unchanged(self, digests: dict[str, str]) -> None:
        """Forgets the tests whose file changed, or all where the code did."""
        same = {name for name, digest in digests.items() if self.seen.get(name) == digest}
        tests = {one for one in self.seconds if one.partition("::")[0] in same}
        self.keep(tests if CODE in same else ())
        self.seen = digests

    def learn(self, mutant: str, test: str) -> None:
        """Remembers which test noticed a mutant: it may well notice the next one."""
        self._noticed[mangled_name_from_mutant_name(mutant)].add(test)

    def job(self, mutant: str, seconds: float) -> Job:
        """Returns the tests for a mutant, the likeliest to notice it first.

        Args:
            mutant: its name.
            seconds: of a processor, that they take on the real code; the first may take more.
        """
        chosen: list[str] = []
        total = 0.0
        for one in self._likeliest(mutant):
            if not chosen or total + self.seconds[one] <= seconds:
                total += self.seconds[one]
                chosen.append(one)
        return Job(mutant, tuple(chosen), _PATIENCE + _TIMES * total)

    def typical(self) -> list[str]:
        """Returns the quickest test of each file that passes."""
        passing = {name: time for name, time in self.seconds.items() if name not in self.failed}
        quickest: dict[str, str] = {}
        for name in sorted(passing, key=passing.__getitem__):
            quickest.setdefault(name.partition("::")[0], name)
        return [name for name in quickest.values() if passing[name] < _LONG]

    def _likeliest(self, mutant: str) -> Iterable[str]:
        """Returns the nearest and quickest tests first."""
        function = mangled_name_from_mutant_name(mutant)
        words = set(_STEM.findall(function.split(".", 2)[2]))
        folder = "/".join(("tests", "unit", *mutant.split(".")[1:-2]))
        noticed = self._noticed[function]

        def cost(test: str) -> float:
            near = len(words.intersection(_STEM.findall(test.removeprefix(folder))))
            near += test.startswith(folder) + _NOTICED * (test in noticed)
            closeness: float = _CLOSER**near
            return max(self.seconds[test], _QUICK) / closeness

        return sorted(self.tests.get(function, ()), key=cost)
