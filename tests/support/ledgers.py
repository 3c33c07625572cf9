"""What the ledger of a checkpoint says, for tests."""

from collections.abc import Mapping
from typing import Any

from statemaint.records.segments import FOLDER, read_ledger
from statemaint.storage import Storage


def ledger_lines(storage: Storage, ledger: str) -> list[Mapping[str, Any]]:
    """Returns what the lines of a ledger say: of a partition (`0/1`) or a verb (`undo`)."""
    return [line.fields for line in read_ledger(storage, ledger)]


def page_of_ledger(storage: Storage, ledger: str = "0/0") -> str:
    return min(entry.path for entry in storage.list(f"{FOLDER}/{ledger}"))


def plant_lines(storage: Storage, ledger: str, content: bytes, name: str = "planted") -> None:
    storage.write(f"{FOLDER}/{ledger}/{name}.jsonl", [content], overwrite=True)
