"""Event logs as Spark leaves them: single files or parts, compressed or not, finished or not."""

import pytest

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.scan.event_logs import past_restarts
from statemaint.storage import MemoryStorage
from tests.unit.codec.metadata.test_event_log import QUERY, header, progress, started

LINES = [*header(), started("a", 0), progress("a", 7, 1.5, 2500, 2000)]
LOG = b"\n".join(LINES) + b"\n"


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
    parts = {f"events_{10 - 1 + at}_app-1": line + b"\n" for at, line in enumerate(LINES)}
    files = {f"eventlog_v2_app-1/{name}": content for name, content in parts.items()}
    names = ("appstatus_app-1", ".events_9_app-1.crc")
    noise = {f"eventlog_v2_app-1/{name}": b"x" for name in names}
    assert found(files | noise) == [(7, 4.0)]


def test_the_logs_of_several_applications_are_in_the_order_of_time() -> None:
    later = b"\n".join([*header(), started("b", 60), progress("b", 9, 61, 1000, 900)])
    assert found({"app-1": later, "app-2": LOG}) == [(7, 4.0), (9, 2.0)]
