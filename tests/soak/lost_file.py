"""The exporter under scrapes for a minute, while its queries file is lost ten times a second.

    python -m tests.soak.lost_file [SECONDS]

The real program, which reads every 100 ms. Fails if a healthy query ever lacks a series.
"""

import sys
import tempfile
import time
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from tests.support.metrics import series_of
from tests.unit.cli.test_exporter import exporter, queries
from tests.unit.cli.test_exporter_survives import Damage

EVERY = 0.1
QUERIES = 20


def main(seconds: float = 60.0) -> None:
    """Damages the file, scrapes, and prints what was seen."""
    get = build_opener(ProxyHandler({})).open
    with tempfile.TemporaryDirectory() as folder:
        file = queries(Path(folder), QUERIES)
        damage = Damage(file)
        with exporter(file, f"--every={EVERY}s") as (url, process):
            before = _series(get(url).read().decode())
            began, times, scrapes = time.monotonic(), 0, 0
            while (now := time.monotonic()) < began + seconds:
                if now >= began + times * EVERY:
                    damage.remove()
                    damage.ways[times % len(damage.ways)]()
                    times += 1
                missing = before - _series(get(url).read().decode())
                scrapes += 1
                if missing or process.poll() is not None:
                    sys.exit(f"after {times} times {len(missing)} series are missing: {missing}")
            damage.mend()
    print(f"{QUERIES} queries, lost {times} times, {scrapes} scrapes: no series missing")  # noqa: T201


def _series(text: str) -> set[tuple[str, str]]:
    names = (f"q{number}" for number in range(QUERIES))
    return {(query, name) for query in names for name, _ in series_of(text, query)}


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
