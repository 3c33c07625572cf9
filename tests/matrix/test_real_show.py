"""The rows that we show are, byte for byte as JSON, those that Spark's reader found in them.

The archives say what Spark found: a digest of the rows of each store after each batch. So this
compares the rows of seven Sparks without any of them.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from statemaint.state import read_state
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import States, contents, recorded
from tests.checkpoints.families import provable
from tests.support.marks import rotated
from tests.support.state_rows import as_spark, store_of

EVERY = [(archive, kind) for archive in provable() for kind in recorded(archive)]
# When a value expires depends on when the query ran.
EXPIRY = re.compile(r'"ttlExpirationMs":\d+')


@pytest.fixture(params=rotated(EVERY))
def name(request: pytest.FixtureRequest) -> tuple[str, str]:
    archive, kind = request.param
    return archive, kind


def test_every_row_of_every_batch_is_what_spark_read(name: tuple[str, str]) -> None:
    archive, kind = name
    storage = MemoryStorage(contents(archive)[kind])
    states = recorded(archive)[kind]
    batches = sorted({int(batch) for found in states.values() for batch in found})
    assert len(batches) > 1
    for batch in batches:
        assert digests(storage, batch + 1) == of_batch(states, batch), batch


def of_batch(states: States, batch: int) -> dict[str, Mapping[str, Any]]:
    found = {name: batches[str(batch)] for name, batches in states.items()}
    return {name: one for name, one in found.items() if one["rows"]}


def digests(storage: MemoryStorage, version: int) -> dict[str, Mapping[str, Any]]:
    lines = defaultdict(list)
    for row in read_state(storage, version=version):
        for line in as_spark(row):
            lines[store_of(row)].append(json.dumps(line, separators=(",", ":")))
    return {name: digest(found) for name, found in lines.items()}


def digest(lines: list[str]) -> Mapping[str, Any]:
    text = EXPIRY.sub("", "".join(f"{line}\n" for line in sorted(lines)))
    found = hashlib.sha256(text.encode()).hexdigest()
    return {"rows": len(lines), "digest": found[:32]}
