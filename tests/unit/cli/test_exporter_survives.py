"""The exporter while its queries file is damaged in every way, ten times a second for a minute."""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from statemaint.cli.queries import _places
from statemaint.metrics.exporter import Exporter, serving
from statemaint.queries.reading import QueriesReader
from statemaint.storage import open_storage
from tests.support.metrics import plain, series_of
from tests.unit.cli.test_exporter import NOW, get, queries

TIMES = 600


class Damage:
    """A queries file, and the ways in which it is lost for a moment."""

    def __init__(self, file: Path) -> None:
        self.file, self.content, self.cuts = file, file.read_bytes(), count(1)
        self.ways: tuple[Callable[[], object], ...] = (
            lambda: file.write_bytes(b""),
            lambda: file.write_bytes(self.content[: next(self.cuts) % len(self.content)]),
            file.mkdir,
            lambda: file.write_bytes(b"\xff\xfe" + self.content),
            lambda: file.symlink_to(file.name),  # a loop, which no user can read
            lambda: file.with_suffix(".away").write_bytes(self.content),
        )

    def remove(self) -> None:
        """Removes what there is in the place of the file."""
        if self.file.is_dir():
            self.file.rmdir()
        else:
            self.file.unlink(missing_ok=True)

    def mend(self) -> None:
        self.remove()
        self.file.write_bytes(self.content)


@pytest.mark.long
def test_no_series_of_a_healthy_query_has_a_gap_while_the_file_is_lost_600_times(
    tmp_path: Path,
) -> None:
    file = queries(tmp_path, 3)
    damage, now = Damage(file), [NOW]
    reader = QueriesReader(file, clock=lambda: now[0])
    exporter = Exporter(partial(_places, reader, (1, 1)), open_storage, lambda: now[0])
    with serving(exporter, "127.0.0.1", 0, certificate=None, key=None) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        exporter.refresh()
        before = {name for name, _ in series_of(get(url, "/metrics")[1], "q0")}
        for number in range(TIMES):
            now[0] += 0.1
            way = damage.ways[number % len(damage.ways)]
            damage.remove()
            way()
            if number % 7 == 0:
                damage.mend()
            exporter.refresh()
            text = get(url, "/metrics")[1]
            for query in ("q0", "q1", "q2"):
                found = series_of(text, query)
                assert before <= {name for name, _ in found}, (number, way)
                assert plain(found)["last_run_timestamp_seconds"] == NOW
                assert plain(found)["exporter_read_timestamp_seconds"] == now[0]
        damage.mend()
        exporter.refresh()
        assert "\nstatemaint_configuration_problem{" not in get(url, "/metrics")[1]
