"""The files of pins: what is written is read, and anything else counts as a pin of every batch."""

import json
import re

import pytest

from statemaint.model.pins import Pin
from statemaint.records.pins import (
    FOLDER,
    MOST_SECONDS,
    end_pin,
    forget_ended,
    read_pins,
    renew_pin,
    write_pin,
)
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import NOW
from tests.support.faults import Clock, HookedStorage

PATH = f"{FOLDER}/7-0a1b2c3d.json"
FIELDS = {"format": 1, "batch": 7, "created": NOW, "until": NOW + 60, "by": "a test"}


def pin_in(content: bytes) -> Pin:
    (pin,) = read_pins(MemoryStorage({PATH: content}, clock=Clock()))
    return pin


def test_a_pin_is_read_as_it_was_written() -> None:
    storage = MemoryStorage(clock=(clock := Clock()))
    pin = write_pin(storage, 7, by="me: before 2.1", seconds=60)
    assert read_pins(storage) == (pin,)
    assert (pin.batch, pin.version, pin.created, pin.until) == (7, 8, NOW, NOW + 60)
    clock.now += 50
    renewed = renew_pin(storage, pin, 60)
    assert read_pins(storage) == (renewed,)
    assert (renewed.id, renewed.created, renewed.until) == (pin.id, NOW, NOW + 110)
    end_pin(storage, renewed)
    assert read_pins(storage) == ()
    assert storage.files == {}


@pytest.mark.parametrize("batch", [0, 7, 2**63 - 2])
def test_the_format_is_what_the_document_says(batch: int) -> None:
    fields = {**FIELDS, "batch": batch}
    assert pin_in(json.dumps(fields).encode()) == Pin(PATH, batch, NOW, NOW + 60, "a test")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"format": 1}',
        *(
            json.dumps({**FIELDS, **wrong}).encode()
            for wrong in (
                {"format": 2}, {"batch": "7"}, {"batch": -1}, {"batch": True}, {"batch": 2**63},
                {"by": 7}, {"until": None}, {"until": -1}, {"until": float("nan")},
                {"created": float("inf")}, {"until": 10**400},
            )
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_pins_every_batch(content: bytes) -> None:
    pin = pin_in(content)
    assert (pin.batch, pin.version, pin.until) == (None, 1, NOW + MOST_SECONDS)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (json.dumps({**FIELDS, "format": 2}), "ValueError: not a pin of this format"),
        (json.dumps({**FIELDS, "by": "x" * (64 << 10)}), "CodecError: .*more than 64 KiB"),
    ],
)
def test_a_pin_that_cannot_be_read_shows_why(content: str, why: str) -> None:
    assert re.match(why, pin_in(content.encode()).by)


def test_no_pin_outlasts_its_file_by_more_than_the_most() -> None:
    """A wrong clock has set the end of such a pin."""
    pin = pin_in(json.dumps({**FIELDS, "until": NOW + 2 * MOST_SECONDS}).encode())
    assert (pin.batch, pin.until) == (7, NOW + MOST_SECONDS)


def test_a_pin_that_ends_while_pins_are_read_is_none() -> None:
    def vanish(verb: str, path: str) -> None:
        if verb == "read":
            MemoryStorage.delete(storage, path)

    storage = HookedStorage({PATH: b"{}"}, before=vanish)
    assert read_pins(storage) == ()


def test_only_pins_that_have_ended_are_forgotten() -> None:
    storage = MemoryStorage({f"{FOLDER}/other": b"{"}, clock=(clock := Clock()))
    short = write_pin(storage, 7, by="test", seconds=60)
    long = write_pin(storage, 8, by="test", seconds=MOST_SECONDS)
    checks: list[int] = []
    clock.now += 60
    forget_ended(storage, before=lambda: checks.append(1))
    assert (set(storage.files), checks) == ({long.path, f"{FOLDER}/other"}, [1])
    clock.now += MOST_SECONDS
    forget_ended(storage, before=lambda: None)
    assert set(storage.files) == {f"{FOLDER}/other"}
    assert short.path != long.path
