"""S3 against the contract, on moto and on a real Ceph, and what is special about it."""

import threading
from collections.abc import Iterable, Iterator
from functools import partial
from io import SEEK_END

import pytest

from statemaint.errors import AlreadyExistsError, NotFoundError, StorageError
from statemaint.storage import S3Storage, Storage, checkpoints_below
from tests.support.checkpoints import paths
from tests.support.s3 import Moto, Place
from tests.support.storage_contract import StorageContract

MIB = 1024 * 1024
PART = 5 * MIB  # the smallest that S3 takes


class OnS3(StorageContract):
    tick = 2.0  # the server's clock and its files' times count whole seconds
    server: Place

    @pytest.fixture
    def storage(self) -> Storage:
        return self.server.storage()

    def fill(self, storage: Storage, paths: Iterable[str]) -> None:
        self.server.fill(storage.root, dict.fromkeys(paths, b""))


class TestMoto(OnS3):
    @pytest.fixture(autouse=True)
    def _server(self, moto_place: Moto) -> None:
        self.server = moto_place


class TestCeph(OnS3):
    @pytest.fixture(autouse=True)
    def _server(self, ceph_place: Place) -> None:
        self.server = ceph_place


def at_once(*jobs: object) -> None:
    threads = [threading.Thread(target=job) for job in jobs]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_root_is_the_address_that_was_given(moto_place: Place) -> None:
    bucket = moto_place.bucket()
    storage = moto_place.storage(f"s3a://{bucket}/a//b/")
    storage.write("c", [b"x"])
    assert storage.root == f"s3a://{bucket}/a//b/"
    found = moto_place.client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [one["Key"] for one in found] == ["a/b/c"]


def test_a_whole_bucket_may_be_the_root(place: Place) -> None:
    storage = place.storage(f"s3://{place.bucket()}")
    storage.write("a/1", [b"x"])
    assert paths(storage) == paths(storage, "a") == ["a/1"]


def test_strange_names_are_listed_and_read(place: Place) -> None:
    storage = place.storage()
    names = ["a/ü 1%20+&<>", "a/.1.delta.crc", "a/b=c", "a/'q'\"x\""]
    for name in names:
        storage.write(name, [name.encode()])
    assert paths(storage, "a") == sorted(names)
    assert [storage.read(name) for name in names] == [name.encode() for name in names]
    storage.delete_all(names[:2])
    storage.move(names[2], names[0])
    assert paths(storage, "a") == sorted([names[0], names[3]])


def test_a_marker_of_a_folder_is_no_file(place: Place) -> None:
    bucket = place.bucket()
    storage = place.storage(f"s3://{bucket}/ck")
    storage.write("a/1", [b"x"])
    for key in ("ck/", "ck/a/", "ck/empty/"):
        place.client.put_object(Bucket=bucket, Key=key)
    assert paths(storage) == ["a/1"]
    assert paths(storage, "empty") == []


def test_a_key_with_two_slashes_has_no_folder(place: Place) -> None:
    bucket = place.bucket()
    for key in ("lake//export/1", "lake/hourly/commits/0"):
        place.client.put_object(Bucket=bucket, Key=key, Body=b"x")
    opened = partial(S3Storage, options=place.options())
    found = checkpoints_below(f"s3://{bucket}/lake", opened=opened)
    assert found == [f"s3://{bucket}/lake/hourly"]


def test_2500_files_are_listed_in_three_requests(moto_place: Moto) -> None:
    storage = moto_place.storage()
    moto_place.fill(storage.root, {f"state/{number:04d}": b"" for number in range(2500)})
    assert len(paths(storage)) == 2500
    assert storage.requests == {"list": 3}


def test_requests_are_counted_by_their_verbs(place: Place) -> None:
    storage = place.storage()
    storage.write("a/1", [b"x"], overwrite=True)
    storage.read("a/1")
    storage.stat("a/1")
    storage.move("a/1", "a/2")
    storage.delete_all(["a/2"])
    list(storage.list(""))
    # a write asks for the time of what it wrote; a move for the size, and whether the name is free
    wanted = {"put": 1, "head": 5, "get": 1, "copy": 1, "delete": 2, "list": 1}
    assert storage.requests == wanted


def test_an_empty_file_is_read(place: Place) -> None:
    storage = place.storage()
    storage.write("a", [])
    assert (storage.read("a"), storage.stat("a").size) == (b"", 0)
    with storage.open("a") as stream:
        assert stream.read(1) == b""


def test_a_large_file_is_uploaded_and_read_in_parts(place: Place) -> None:
    storage = place.storage(part_size=PART)
    content = [bytes([number]) * MIB for number in range(12)]
    entry = storage.write("a/large", iter(content), overwrite=True)
    assert storage.requests == {"post": 2, "put": 3, "head": 1}
    assert entry == storage.stat("a/large")
    with storage.open("a/large") as stream:
        assert stream.read(7 * MIB + 1) == b"".join(content)[: 7 * MIB + 1]
        assert stream.read() == b"".join(content)[7 * MIB + 1 :]
    assert storage.read("a/large") == b"".join(content)
    assert storage.requests["get"] == 6


def test_whoever_stops_reading_early_waits_for_no_more_than_is_under_way(place: Place) -> None:
    storage = place.storage(part_size=PART, threads=2)
    storage.write("a", (bytes(MIB) for _ in range(40)), overwrite=True)
    with storage.open("a") as stream:
        assert len(stream.read(6 * MIB)) == 6 * MIB
    assert storage.requests["get"] <= 4


def test_whoever_seeks_gets_what_he_reads_then_and_no_more(place: Place) -> None:
    storage = place.storage(part_size=PART, threads=2)
    content = [bytes([number]) * MIB for number in range(40)]
    storage.write("a", iter(content), overwrite=True)
    with storage.open("a") as stream:
        assert stream.read(10) == bytes(10)
        assert stream.seek(-21, SEEK_END) == 40 * MIB - 21
        assert stream.read(21) == bytes([39]) * 21
        assert storage.requests["get"] == 2
        assert (stream.seek(11 * MIB), stream.read(2)) == (11 * MIB, bytes([11]) * 2)
        assert stream.read(6 * MIB) == b"".join(content)[11 * MIB + 2 : 17 * MIB + 2]


def test_memory_is_bounded_while_a_file_is_uploaded(place: Place) -> None:
    storage = place.storage(part_size=PART, threads=2)
    ahead = []

    def chunks() -> Iterator[bytes]:
        for number in range(60):
            ahead.append(number * MIB - storage.requests.get("put", 0) * 5 * MIB)
            yield bytes(MIB)

    storage.write("a", chunks(), overwrite=True)
    # two parts under way, one that is made, one waiting at the start
    assert max(ahead) <= 20 * MIB


def test_a_large_file_is_not_overwritten(place: Place) -> None:
    storage = place.storage(part_size=PART)
    storage.write("a", [b"first"])
    with pytest.raises(AlreadyExistsError):
        storage.write("a", [bytes(12 * MIB)])
    assert storage.read("a") == b"first"
    assert place.uploads(storage) == []


def test_a_large_file_whose_chunks_fail_leaves_no_parts(place: Place) -> None:
    storage = place.storage(part_size=PART)

    def chunks() -> Iterator[bytes]:
        yield bytes(16 * MIB)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        storage.write("a", chunks())
    assert paths(storage) == []
    assert storage.requests["put"] >= 3
    assert place.uploads(storage) == []


def test_of_many_who_append_none_loses_a_line(place: Place) -> None:
    storage = place.waiting()
    lines = [f"{number}\n".encode() for number in range(6)]
    at_once(*(lambda line=line: storage.append("l", line) for line in lines))
    assert sorted(storage.read("l").splitlines(keepends=True)) == lines


def test_the_etag_is_sent_in_the_form_that_the_server_compares(
    moto_place: Place, ceph_place: Place
) -> None:
    for place, form in ((moto_place, '"{}"'), (ceph_place, "{}")):
        storage = place.storage()
        storage.append("l", b"1\n")
        storage.append("l", b"2\n")
        assert storage._probe._forms == (form,)
        assert paths(storage) == ["l"]


def test_a_server_is_probed_once(place: Place) -> None:
    storage = place.storage()
    storage.write("a", [b"x"])
    before = storage.requests
    storage.write("b", [b"x"])
    assert storage.exclusive
    assert sum(storage.requests.values()) == sum(before.values()) + 2


def test_the_clock_is_asked_for_once(place: Place) -> None:
    storage = place.storage()
    storage.now()
    storage.now()
    assert storage.requests == {"head": 1}


def test_a_versioned_bucket_shows_what_is_there_now(place: Place) -> None:
    bucket = place.bucket()
    place.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    storage = place.storage(f"s3://{bucket}/ck")
    for path in ("a/1", "a/2", "a/3"):
        storage.write(path, [b"old"])
    storage.delete("a/1")
    storage.delete_all(["a/2"])
    storage.write("a/3", [b"new"], overwrite=True)
    assert paths(storage) == ["a/3"]
    with pytest.raises(NotFoundError):
        storage.read("a/1")
    with pytest.raises(NotFoundError):
        storage.stat("a/2")
    storage.write("a/1", [b"again"])
    assert (storage.read("a/1"), storage.read("a/3")) == (b"again", b"new")


@pytest.mark.parametrize("verb", ["stat", "read"])
def test_a_bucket_that_is_not_there_is_not_a_file_that_is_not_there(
    place: Place, verb: str
) -> None:
    storage = place.storage("s3://no-such-bucket-here/ck")
    with pytest.raises(
        StorageError, match="no such bucket; bucket no-such-bucket-here, e"
    ) as caught:
        getattr(storage, verb)("a/1")
    assert not isinstance(caught.value, NotFoundError)
    with pytest.raises(StorageError, match="there is no such bucket; bucket"):
        list(storage.list(""))
    with pytest.raises(StorageError, match="there is no such bucket; bucket"):
        storage.write("a/1", [b"x"])


def test_wrong_keys_are_refused_in_one_line_without_them(ceph_place: Place) -> None:
    bucket = ceph_place.bucket()
    wrong = Place(ceph_place.url, ceph_place.access_key, "not-the-secret")
    unknown = Place(ceph_place.url, "not-the-key", "not-the-secret")
    for place, code in ((wrong, "SignatureDoesNotMatch"), (unknown, "InvalidAccessKeyId")):
        storage = place.storage(f"s3://{bucket}/ck")
        with pytest.raises(
            StorageError, match=rf"the credentials were refused \({code}\)"
        ) as list_:
            list(storage.list(""))
        with pytest.raises(
            StorageError, match="the credentials are wrong, or s3:GetObject"
        ) as stat:
            storage.stat("a")
        for caught in (list_, stat):
            assert caught.value.exit_code == 5
            assert "\n" not in str(caught.value)
            assert place.secret_key not in repr(caught.value) + str(caught.value)
            assert place.access_key not in repr(caught.value) + str(caught.value)


def test_no_right_to_a_bucket_is_said_with_the_action(ceph_place: Place) -> None:
    # A policy that lets its own owner read, and neither write nor delete.
    bucket = ceph_place.bucket()
    storage = ceph_place.storage(f"s3://{bucket}/ck")
    storage.write("a", [b"x"])
    ceph_place.client.put_bucket_policy(
        Bucket=bucket,
        Policy=f"""{{"Version": "2012-10-17", "Statement": [{{"Effect": "Deny", "Principal": "*",
            "Action": ["s3:PutObject", "s3:DeleteObject"],
            "Resource": "arn:aws:s3:::{bucket}/*"}}]}}""",
    )
    assert storage.read("a") == b"x"
    with pytest.raises(
        StorageError, match=r"^b: access denied, s3:PutObject is not allowed; bucket "
    ):
        storage.write("b", [b"x"])
    with pytest.raises(
        StorageError, match=r"^a: access denied, s3:DeleteObject is not allowed; bucket "
    ):
        storage.delete("a")
    with pytest.raises(StorageError, match=r"^a: .*s3:DeleteObject is not allowed; grant it on"):
        storage.delete_all(["a"])
    assert storage.read("a") == b"x"
