"""What seven Sparks made, kept in `tests/checkpoints`: we read and maintain all of it."""

import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from statemaint.codec.digest import StateDigest
from statemaint.maintain import digest_stores, maintain, verify
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.storage import Storage, open_storage
from tests.checkpoints.archive import recorded, unpack
from tests.checkpoints.environments import VERSIONS

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
EVERY = [f"{version}/{kind}" for version in VERSIONS for kind in recorded(version)]
Digests = dict[tuple[StoreId, int], StateDigest]


@pytest.fixture(scope="module")
def unpacked() -> Iterator[Path]:
    with TemporaryDirectory() as place:
        for version in VERSIONS:
            unpack(version, Path(place) / version)
        yield Path(place)


@pytest.fixture(params=EVERY)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def checkpoint(unpacked: Path, name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unpacked / name, tmp_path / "checkpoint"))


@pytest.fixture
def storage(checkpoint: Path) -> Storage:
    return open_storage(str(checkpoint))
