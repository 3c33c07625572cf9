"""What a reader of the queries remembers of each file: its last good version.

    {"format": 1, "path": "/etc/statemaint/queries", "files": {"/etc/statemaint/queries/a.yaml":
     {"texts": ["queries: ..."], "doubt": null, "kept": {"queries.orders": [0, 1795000000.0]}}}}

A process that lives for one reading only, as Airflow's parsing does, keeps it in a file. That file
is never trusted over a queries file that can be read, and is replaced atomically.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

_FORMAT = 1
_log = logging.getLogger(__name__)


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """Returns the folder in which the last good queries outlive a process, if one is set."""
    folder = environ.get("STATEMAINT_STATE")
    return Path(folder) if folder else None


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why the file as it is now is not used."""

    seen: str  # what is there now: a text by its checksum, or an error
    since: float  # when that was seen first
    first: float  # when the last good version was first used instead


@dataclass(frozen=True, slots=True)
class LastGood:
    """The last good version of an entry that has a mistake."""

    text: str | None  # the text of the file when the entry had none; `None` if it always had one
    since: float  # when the mistake was seen first


@dataclass(frozen=True, slots=True)
class FileMemory:
    """The last good version of a file."""

    text: str
    doubt: Doubt | None = None  # why it is used instead of the present one; `None` if it is that
    # By the part of the file, the last good version of what has a mistake in `text`.
    kept: Mapping[str, LastGood] = field(default_factory=dict)


Memory = Mapping[str, FileMemory]
"""By the path of the file."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """The file in which the memory of a reader outlives its process."""

    folder: Path
    path: str

    @property
    def file(self) -> Path:
        return self.folder / f"queries-{sha256(self.path.encode()).hexdigest()[:12]}.json"

    def load(self) -> dict[str, FileMemory]:
        try:
            content = json.loads(self.file.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT or content["path"] != self.path:
                return {}
            return {path: _from_json(fields) for path, fields in content["files"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            _log.warning("%s is not used: %s", self.file, error)
            return {}

    def save(self, memory: Memory) -> None:
        """Replaces the memory; a folder that cannot be written to is a warning in the log."""
        files = {path: _to_json(of_file) for path, of_file in memory.items()}
        text = json.dumps({"format": _FORMAT, "path": self.path, "files": files})
        # Containers that share the folder have the same process ids, and host names.
        part = self.file.with_name(f"{self.file.name}.{uuid4().hex}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            like = [file for file in (Path(self.path), self.file) if file.exists()]
            part.touch(mode=like[0].stat().st_mode & 0o644 if like else 0o600)
            part.write_text(text, encoding="utf-8")
            part.replace(self.file)
        except OSError as error:
            _log.warning("the last good queries cannot be kept in %s: %s", self.folder, error)


def _to_json(memory: FileMemory) -> dict[str, Any]:
    """Returns a file's memory with each text once; the first is the file's own."""
    others = (good.text for good in memory.kept.values() if good.text is not None)
    number = {text: number for number, text in enumerate(dict.fromkeys([memory.text, *others]))}
    kept = {
        part: [None if good.text is None else number[good.text], good.since]
        for part, good in memory.kept.items()
    }
    doubt = asdict(memory.doubt) if memory.doubt else None
    return {"texts": [*number], "doubt": doubt, "kept": kept}


def _from_json(fields: Mapping[str, Any]) -> FileMemory:
    texts, doubt = [str(text) for text in fields["texts"]], fields["doubt"]
    kept = {
        part: LastGood(None if number is None else texts[number], since)
        for part, (number, since) in fields["kept"].items()
    }
    return FileMemory(texts[0], Doubt(**doubt) if doubt else None, kept)
