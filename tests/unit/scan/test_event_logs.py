"""Event logs as Spark leaves them: single files or parts, compressed or not, finished or not."""

import pytest

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.scan.restart_evidence import past_restarts
from statemaint.storage import MemoryStorage
from tests.support.event_logs import QUERY, restart_log

NOON = 1_700_000_000.0
LOG = restart_log(7, NOON, 4.0)


def found(files: dict[str, bytes]) -> list[tuple[int, float]]:
    past = past_restarts(MemoryStorage(files), QUERY)
    return [(restart.version, restart.seconds) for restart in past]


@pytest.mark.parametrize("codec", sorted(COMPRESSIONS))
@pytest.mark.parametrize("ending", ["", ".inprogress"])
def test_a_compressed_log_is_read(codec: str, ending: str) -> None:
    stored = b"".join(encode(COMPRESSIONS[codec], [LOG]))
    assert found({f"app-1.{codec}{ending}": stored}) == [(7, 4.0)]


def test_a_log_that_is_still_written_ends_where_it_ends() -> None:
    more = LOG + b"".join(b'{"Event":"Other%d"}\n' % number for number in range(20_000))
    stored = b"".join(encode(COMPRESSIONS["lz4"], [more]))
    assert found({"app-1.lz4.inprogress": stored[:-900]}) == [(7, 4.0)]


def test_the_parts_of_a_rolling_log_follow_each_other_by_number() -> None:
    lines = LOG.splitlines(keepends=True)
    parts = {f"events_{number}_app-1": line for number, line in enumerate(lines, 9)}
    files = {f"eventlog_v2_app-1/{name}": content for name, content in parts.items()}
    names = ("appstatus_app-1", ".events_9_app-1.crc")
    noise = {f"eventlog_v2_app-1/{name}": b"x" for name in names}
    assert found(files | noise) == [(7, 4.0)]


def test_the_logs_of_several_applications_are_in_the_order_of_time() -> None:
    later = restart_log(9, NOON + 60, 2.0)
    assert found({"app-1": later, "app-2": LOG}) == [(7, 4.0), (9, 2.0)]
