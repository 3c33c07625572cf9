"""`python -m tests.benchmarks.against_s3 CHECKOUT`: verbs beside another checkout, on a Ceph.

Each repetition is a process of its own, ours and the other's in turn, on a bucket of its own with
the same checkpoint. What counts is the time by the clock, the CPU time and the requests.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import click

from tests.benchmarks import cases
from tests.benchmarks.inputs import Input, prepare
from tests.support.ceph import Ceph, ceph
from tests.support.paths import ROOT

_NOT_COMPILED = "PYTHONDONTWRITEBYTECODE"
_VERBS = ("verify", "doctor", "maintain")
# Runs in either checkout, so it may only use what both have.
_RUN = """
import json, sys, time
from statemaint.audit import doctor, verify
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import S3Options, S3Storage
verb, address, endpoint = sys.argv[1:]
storage = S3Storage(address, S3Options(endpoint=endpoint))
policy = Policy(min_deltas_for_snapshot=10, min_batches_to_retain=10)
does = {"verify": verify, "doctor": doctor, "maintain": lambda one: maintain(one, policy)}
storage.now()
began, wall = time.process_time(), time.perf_counter()
does[verb](storage)
used = time.process_time() - began, time.perf_counter() - wall
print(json.dumps({"cpu": used[0], "wall": used[1], "requests": sum(storage.requests.values())}))
"""


@click.command()
@click.argument("checkout", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--repeat", default=3, show_default=True, help="Repetitions to take medians of.")
@click.option("--folder", default=ROOT / ".run" / "bench", type=click.Path(path_type=Path))
def main(checkout: Path, *, repeat: int, folder: Path) -> None:
    """Prints what verbs cost here and in another checkout, on a Ceph of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    given = prepare(cases.FAR, folder.resolve())
    click.echo("| verb | seconds here | there | CPU here | there | requests here | there |")
    click.echo("|---|--:|--:|--:|--:|--:|--:|")
    with TemporaryDirectory() as place, ceph(Path(place)) as server:
        for verb in _VERBS:
            found: dict[Path, list[dict[str, Any]]] = {ROOT: [], checkout.resolve(): []}
            for _ in range(repeat):
                for root, results in found.items():
                    with _bucket(server, given) as address:
                        results.append(_run(root, verb, address, server))
            click.echo(_line(verb, *found.values()))


def _line(verb: str, here: list[dict[str, Any]], there: list[dict[str, Any]]) -> str:
    cells = [verb]
    for name, form in (("wall", ".2f"), ("cpu", ".2f"), ("requests", ",")):
        cells += [format(median(one[name] for one in some), form) for some in (here, there)]
    return f"| {' | '.join(cells)} |"


@contextmanager
def _bucket(server: Ceph, given: Input) -> Iterator[str]:
    """A new bucket with a copy of a checkpoint."""
    session = boto3.Session(server.access_key, server.secret_key, region_name="us-east-1")
    client = session.client("s3", endpoint_url=server.url)
    name = f"b{os.urandom(8).hex()}"
    client.create_bucket(Bucket=name)
    files = [one for one in given.root.rglob("*") if one.is_file()]
    with ThreadPoolExecutor(8) as threads:
        for one in files:
            key = one.relative_to(given.root).as_posix()
            threads.submit(client.put_object, Bucket=name, Key=key, Body=one.read_bytes())
    yield f"s3://{name}"


def _run(root: Path, verb: str, address: str, server: Ceph) -> dict[str, Any]:
    environ = {name: value for name, value in os.environ.items() if name != _NOT_COMPILED}
    environ |= {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    command = [sys.executable, "-c", _RUN, verb, address, server.url]
    done = subprocess.run(
        command, cwd=root, env=environ, capture_output=True, check=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
