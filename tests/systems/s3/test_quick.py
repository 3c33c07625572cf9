"""Small objects are read without boto3's layers, and as boto3 would read them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from statemaint.errors import NotFoundError, StorageError
from statemaint.storage import S3Storage
from statemaint.storage.s3 import client
from tests.support.fault_proxy import Answer, Cut, Fault, FaultProxy, Lost, Seen, error
from tests.support.s3 import Place

MIB = 1024 * 1024


def by_boto3(seen: Seen) -> bool:
    """Whether boto3 made the request: it numbers its own."""
    return any(name.lower() == "amz-sdk-invocation-id" for name in seen.headers)


def reads(proxy: FaultProxy) -> list[bool]:
    """Which of the reads were boto3's."""
    return [by_boto3(seen) for seen in proxy.seen if seen.method == "GET"]


def learned(place: Place, **options: Any) -> S3Storage:
    """A storage whose first read boto3 has made, with the files `a` and `b`."""
    storage = place.storage(**options)
    for name in ("a", "b"):
        storage.write(name, [name.encode() * 3])
    assert storage.read("a") == b"aaa"
    return storage


@pytest.mark.parametrize("name", ["b", "b c", "b+c%25=é~(1)", "x/y//z", "./x", "25.delta", "ä?#&"])
def test_a_read_is_boto3s_without_boto3(place: Place, name: str) -> None:
    """Ceph checks the signature, which is of the key as well."""
    storage = place.storage()
    storage.write(name, [b"content"])
    assert storage.read(name) == b"content"
    before = storage.requests["get"]
    assert storage._bucket.shared._form is not None
    assert storage.read(name) == b"content"
    with storage.open(name) as stream:
        assert stream.read() == b"content"
    assert storage.requests["get"] == before + 2
    assert storage._bucket.shared._paused_until < 0


def test_the_first_read_is_boto3s_and_the_others_are_not(broken: Place, proxy: FaultProxy) -> None:
    storage = learned(broken, requester_pays=True)
    assert storage.read("b") == b"bbb"
    assert reads(proxy) == [True, False]
    first, second = ({n.lower(): v for n, v in one.headers.items()} for one in proxy.seen[-2:])
    made_anew = {"authorization", "x-amz-date", "amz-sdk-invocation-id", "amz-sdk-request"}
    assert {**first, **dict.fromkeys(made_anew)} == {**second, **dict.fromkeys(made_anew)}
    assert second["x-amz-request-payer"] == "requester"
    assert "b" in proxy.seen[-1].target


def test_a_missing_file_takes_one_request(place: Place) -> None:
    storage = learned(place)
    before = storage.requests["get"]
    with pytest.raises(NotFoundError, match=r"^c: no such file$"):
        storage.read("c")
    assert storage.requests["get"] == before + 1


def test_a_bucket_that_is_gone_is_not_a_missing_file(place: Place) -> None:
    storage = learned(place)
    for name in ("a", "b"):
        storage.delete(name)
    place.client.delete_bucket(Bucket=storage._bucket.name)
    with pytest.raises(StorageError, match="no such bucket") as raised:
        storage.read("a")
    assert not isinstance(raised.value, NotFoundError)


def test_an_empty_file_is_read(place: Place) -> None:
    storage = learned(place)
    storage.write("empty", [])
    assert (storage.read("empty"), storage.read("b")) == (b"", b"bbb")
    assert storage._bucket.shared._paused_until < 0


@pytest.mark.parametrize(
    "fault",
    [
        Answer(503, error("SlowDown")),
        Answer(403, error("AccessDenied")),
        Answer(500),
        Answer(301, error("PermanentRedirect")),
        Answer(404, error("NoSuchBucket")),
        Answer(200, b"x" * (6 * MIB)),
        Answer(206, b"not the object"),
        Cut(after=1),
        Lost(),
    ],
    ids=str,
)
def test_whatever_is_not_the_answer_is_left_to_boto3(
    broken: Place, proxy: FaultProxy, fault: Fault
) -> None:
    storage = learned(broken, part_size=5 * MIB)
    proxy.fail("GET", fault)
    assert storage.read("b") == b"bbb"
    assert reads(proxy) == [True, False, True]


def test_after_a_failure_boto3_makes_all_reads_for_a_while(
    broken: Place, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("statemaint.storage.s3.client.time", clock)
    storage = learned(broken)
    proxy.fail("GET", Answer(503, error("SlowDown")))
    for _ in range(3):
        assert storage.read("b") == b"bbb"
    assert reads(proxy) == [True, False, True, True, True]
    now += 31
    assert storage.read("b") == b"bbb"
    assert reads(proxy)[-1] is False


def test_a_small_file_is_read_without_boto3_after_a_large_one(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = learned(broken, part_size=5 * MIB)
    storage.write("large", [bytes(6 * MIB)])
    assert storage.read("large") == bytes(6 * MIB)  # boto3 reads its last part, if it is the same
    assert storage.read("b") == b"bbb"
    assert reads(proxy)[-1] is False
    assert storage._bucket.shared._paused_until < 0


def test_credentials_that_cannot_be_renewed_are_left_to_boto3(
    broken: Place, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = learned(broken)

    def refused() -> None:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "AssumeRole")

    credentials = SimpleNamespace(get_frozen_credentials=refused)
    monkeypatch.setattr(storage._bucket.shared, "_credentials", credentials)
    assert storage.read("b") == b"bbb"
    assert reads(proxy) == [True, True]


def test_a_record_that_is_replaced_takes_one_request(place: Place) -> None:
    storage = place.storage()
    for content in (b"first", b"second"):
        before = storage.requests
        storage.replace("_statemaint/x.json", [content])
        after = storage.requests
        assert {verb: n - before.get(verb, 0) for verb, n in after.items() if n} == {
            **dict.fromkeys(before, 0), "put": 1,
        }  # fmt: skip
        assert storage.read("_statemaint/x.json") == content


def test_a_large_object_is_read_in_parts(broken: Place, proxy: FaultProxy) -> None:
    content = bytes(range(256)) * (12 * MIB // 256)
    storage = learned(broken, part_size=5 * MIB)
    storage.write("large", [content])
    proxy.seen.clear()
    assert storage.read("large") == content
    assert reads(proxy) == [False, True, True]


@pytest.mark.parametrize(
    "change",
    [
        lambda seen: seen.headers.pop("Authorization"),
        lambda seen: seen.headers.update({"x-amz-s3session-token": "x"}),
        lambda seen: seen.headers.update({"Authorization": "AWS4-ECDSA-P256-SHA256 ..."}),
    ],
    ids=["not signed", "a session of S3 Express", "signed for several regions"],
)
def test_what_is_signed_in_another_way_stays_with_boto3(change: Callable[[Any], object]) -> None:
    class Request:
        url = "http://127.0.0.1/bucket/key"

        def __init__(self) -> None:
            scope = "AWS4-HMAC-SHA256 Credential=id/20261123/eu-west-1/s3/aws4_request, Signed..."
            self.headers = {"Authorization": scope, "Host": "x", "User-Agent": "y"}

    plain, other = Request(), Request()
    change(other)
    form = client._form_of(plain, "key")  # type: ignore[arg-type]
    assert form == client._Form("http://127.0.0.1/bucket/", {"user-agent": "y"}, "eu-west-1")
    assert client._form_of(other, "key") is None  # type: ignore[arg-type]
    assert client._form_of(plain, "another") is None  # type: ignore[arg-type]
