"""A Dockerfile as stages and steps, as far as the ones of this repository go."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: `RUN`, `COPY`, `ENV`, ... and the text after it, on one line."""

    instruction: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)

    def variables(self, known: Mapping[str, str]) -> dict[str, str]:
        """Returns the variables that an `ENV` sets, with the known `$PATH` in them."""
        pairs = (word.partition("=") for word in self.words)
        return {name: value.replace("$PATH", known["PATH"]) for name, _, value in pairs}


@dataclass(slots=True)
class Stage:
    """What follows one `FROM`."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)

    def of(self, instruction: str) -> list[Step]:
        return [step for step in self.steps if step.instruction == instruction]


def hadolint() -> str | None:
    """Returns the linter's path: the one beside this Python, or one on the `PATH`."""
    beside = Path(sys.executable).parent
    return shutil.which("hadolint", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")


def stages(path: Path) -> list[Stage]:
    """Returns the stages of a Dockerfile; its arguments have their defaults."""
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for step in _steps(path.read_text()):
        if step.instruction == "FROM":
            words = _filled(step.text, arguments).split()
            found.append(Stage(words[0], words[2] if len(words) > 1 else ""))
        elif step.instruction == "ARG" and not found:
            name, _, value = step.text.partition("=")
            arguments[name] = value
        else:
            found[-1].steps.append(step)
    return found


def _steps(text: str) -> Iterator[Step]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        instruction, _, rest = line.partition(" ")
        yield Step(instruction, " ".join(rest.split()))


def _filled(text: str, arguments: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda name: arguments[name[1]], text)
