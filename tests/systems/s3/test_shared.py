"""The storages of one bucket share boto3's client, and each counts its own requests."""

import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from statemaint.errors import AlreadyExistsError
from statemaint.storage import S3Storage
from statemaint.storage.s3 import client as shared
from tests.support.s3 import Place


@pytest.fixture
def at(moto_place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket, which the environment has the keys of."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", moto_place.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", moto_place.secret_key)
    return f"s3://{moto_place.bucket()}"


def opened(place: Place, address: str) -> S3Storage:
    return S3Storage(address, place.options(session=None))


def client(storage: S3Storage) -> object:
    return storage._bucket.shared


def test_requests_of_threads_are_counted_by_their_own_storage(moto_place: Place, at: str) -> None:
    storages = [opened(moto_place, f"{at}/query-{number}") for number in range(8)]
    assert len({client(storage) for storage in storages}) == 1
    begin = Barrier(len(storages))

    def work(number: int) -> None:
        storage = storages[number]
        begin.wait()
        storage.replace("file", [b"content"])
        for _ in range(10 + number):
            assert storage.read("file") == b"content"
        assert [entry.path for entry in storage.list("")] == ["file"]

    with ThreadPoolExecutor(len(storages)) as threads:
        list(threads.map(work, range(len(storages))))
    expected = [{"put": 1, "get": 10 + number, "list": 1} for number in range(len(storages))]
    assert [dict(storage.requests) for storage in storages] == expected


def test_the_servers_clock_is_known_from_the_answers_to_another_storage(
    moto_place: Place, at: str
) -> None:
    opened(moto_place, f"{at}/a").replace("file", [b""])
    other = opened(moto_place, f"{at}/b")
    assert abs(other.now() - time.time()) < 2
    assert not other.requests


def test_what_conditional_writes_can_do_is_tried_once_for_a_bucket(
    moto_place: Place, at: str
) -> None:
    first, other = (opened(moto_place, f"{at}/{name}") for name in "ab")
    for storage in (first, other):
        storage.write("file", [b"content"])
        assert storage.exclusive
        storage.append("log", b"line\n")
        storage.append("log", b"line\n")
    # The second append is refused once: its file is there.
    assert other.requests == {"put": 4, "head": 1, "get": 1}
    assert first.requests == {"put": 4 + 5, "head": 1, "get": 1, "delete": 2}
    with pytest.raises(AlreadyExistsError):
        other.write("file", [b"another"])


def test_a_trial_is_repeated_where_what_was_read_since_contradicts_it(
    moto_place: Place, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ceph ignores the condition from the moment at which the bucket is versioned."""
    assert opened(moto_place, f"{at}/a").exclusive
    other = opened(moto_place, f"{at}/b")
    monkeypatch.setattr(other._bucket, "ignores_conditions", lambda: True)
    monkeypatch.setattr(other._probe, "_refuses", lambda *_, **__: False)
    assert not other.exclusive
    assert not opened(moto_place, f"{at}/c")._bucket.shared.exclusive


def test_another_environment_bucket_process_or_session_has_its_own_client(
    moto_place: Place, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(moto_place, f"{at}/a")
    others = [opened(moto_place, f"s3://{moto_place.bucket()}/a")]
    others += [S3Storage(f"{at}/a", moto_place.options()) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: -1)  # a forked one must not write into our connections
        others.append(opened(moto_place, f"{at}/a"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    others.append(opened(moto_place, f"{at}/a"))
    assert len({client(storage) for storage in [first, *others]}) == 1 + len(others)


def test_keys_that_were_replaced_in_a_file_are_read_minutes_later_by_a_client_in_place_of_the_old(
    moto_place: Place, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, clients = time.monotonic(), list[weakref.ref[object]]()
    for minutes in (0, 4, 5, 6, 10, 15, 20):
        monkeypatch.setattr(
            "statemaint.storage.s3.client.time.monotonic", lambda at=now + 60 * minutes: at
        )
        storage = opened(moto_place, at)
        storage.replace("file", [b"content"])
        clients.append(weakref.ref(client(storage)))
        del storage
    gc.collect()
    assert [one() is None for one in clients] == [True] * 6 + [False]
    assert len({id(one) for one in clients}) == 5, "those of 0 and 4, and of 5 and 6 minutes"


def test_no_more_than_some_clients_are_held(moto_place: Place, at: str) -> None:
    for number in range(shared._MOST + 9):
        opened(moto_place, f"s3://bucket-{number}/a")
    assert len(shared._held) == shared._MOST
    first = opened(moto_place, f"{at}/a")
    assert client(opened(moto_place, f"{at}/b")) is client(first)
