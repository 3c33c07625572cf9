"""Pins: each keeps maintenance from deleting what a batch needs, until it ends (S3).

    _statemaint/pins/<id>.json    {"format": 1, "batch", "created", "until", "by"}

Whoever makes a pin renews and ends it; any number of them may be there. No file of the folder is
ever taken for nothing: one that cannot be read counts as a pin of every batch.
"""

import json
from dataclasses import asdict, replace
from functools import partial
from secrets import token_hex
from typing import Any

from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import LATEST, Entry, valid_time
from statemaint.model.pins import Pin
from statemaint.storage import OURS, Storage
from statemaint.storage.base import Check, must_be_small
from statemaint.wording import printable
from statemaint.workers import in_order

FOLDER = f"{OURS}/pins"
MOST_SECONDS = 90 * 86400.0
"""The longest time that a pin holds without being renewed.

No build writes a longer one. So a file that cannot be read, and is older, has ended; and so has one
whose end a wrong clock has set.
"""
MOST_CHARACTERS = 200
"""The length of the note that shows who made a pin and why; the rest of a longer one is cut off."""
_FORMAT = 1
_MOST_BYTES = 1 << 16
_LAST_BATCH = 2**63 - 2


def write_pin(storage: Storage, batch: int, *, by: str, seconds: float) -> Pin:
    now = storage.now()
    path = f"{FOLDER}/{batch}-{token_hex(4)}.json"
    return _write(storage, Pin(path, batch, created=now, until=now + seconds, by=_note(by)))


def renew_pin(storage: Storage, pin: Pin, seconds: float) -> Pin:
    return _write(storage, replace(pin, until=storage.now() + seconds))


def end_pin(storage: Storage, pin: Pin) -> None:
    storage.delete(pin.path)


def _write(storage: Storage, pin: Pin) -> Pin:
    fields = {"format": _FORMAT, **asdict(pin)}
    del fields["path"]
    storage.replace(pin.path, [json.dumps(fields).encode() + b"\n"])
    return pin


def read_pins(storage: Storage) -> tuple[Pin, ...]:
    """Returns all pins, also those that have ended; one request, and one for each of them."""
    # A write leaves files that begin with a dot beside its own.
    entries = sorted(entry for entry in storage.list(FOLDER) if not entry.name.startswith("."))
    jobs = (partial(_read, storage, entry) for entry in entries)
    return tuple(pin for pin in in_order(jobs, threads=storage.parallel) if pin)


def forget_ended(storage: Storage, *, before: Check) -> None:
    """Deletes the files of pins that have ended, but none that cannot be read."""
    now = storage.now()
    for pin in read_pins(storage):
        if pin.batch is not None and not pin.holds(now):
            before()
            end_pin(storage, pin)


def _read(storage: Storage, entry: Entry) -> Pin | None:
    latest = LATEST if entry.modified is None else entry.modified + MOST_SECONDS
    try:
        must_be_small(entry.size, entry.path, _MOST_BYTES)
        pin = _parsed(entry.path, json.loads(storage.read(entry.path)))
    except NotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, CodecError) as error:
        why = _note(f"{type(error).__name__}: {error}")
        return Pin(entry.path, None, entry.modified or 0.0, latest, why)
    return replace(pin, until=min(pin.until, latest))


def _parsed(path: str, fields: dict[str, Any]) -> Pin:
    batch, by = fields["batch"], fields["by"]
    known = fields["format"] == _FORMAT and type(batch) is int and isinstance(by, str)
    if not known or not 0 <= batch <= _LAST_BATCH:
        raise ValueError("not a pin of this format")
    return Pin(path, batch, valid_time(fields["created"]), valid_time(fields["until"]), _note(by))


def _note(text: str) -> str:
    return printable(text[:MOST_CHARACTERS])
