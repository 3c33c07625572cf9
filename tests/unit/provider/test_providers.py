"""The providers alone take all rows of every kind of query out of its state and put them back."""

import pytest

from statemaint.audit import digest_stores, verify
from statemaint.errors import UnsupportedError
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.restored import put_back_by_providers

KINDS = [
    (archive, kind)
    for archive in ("4.3.0", "rocks-4.3.0", "rocks-3.5.9")
    for kind in contents(archive)
    if not kind.startswith("rocks-join4")
]


@pytest.mark.parametrize("case", KINDS)
def test_a_store_has_its_rows_after_they_were_removed_and_put_back(case: tuple[str, str]) -> None:
    archive, kind = case
    storage = MemoryStorage(contents(archive)[kind])
    version, stores = digest_stores(storage)
    assert put_back_by_providers(storage) == 2
    assert not sum(digest.rows for _, digest in digest_stores(storage, version=version + 1)[1])
    assert digest_stores(storage) == (version + 2, stores)
    assert verify(storage, deep=True).healthy


@pytest.mark.parametrize("kind", ["rocks-join4", "rocks-join4-ids"])
def test_keys_with_a_time_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedError, match=r"keys in TimestampLast"):
        put_back_by_providers(MemoryStorage(contents("rocks-4.3.0")[kind]))
