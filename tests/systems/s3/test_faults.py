"""S3 when something goes wrong on the way: real HTTP, broken by a proxy in front of moto."""

import os
import socket
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from urllib3.exceptions import SSLError

from statemaint.errors import (
    AlreadyExistsError,
    ConfigError,
    NotFoundError,
    StorageError,
    Superseded,
)
from statemaint.storage import S3Options, S3Storage, open_storage
from statemaint.storage.s3.client import ServerClock
from statemaint.storage.s3.options import options_from
from statemaint.storage.s3.read import _Object
from tests.support.checkpoints import paths
from tests.support.fault_proxy import Answer, Cut, FaultProxy, Half, Lost, Seen, Then, about, error
from tests.support.s3 import Place

MIB = 1024 * 1024
CONTENT = bytes(range(256)) * (12 * MIB // 256)
MANY = 1000


# -- reading


def test_a_read_goes_on_where_the_connection_broke(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage(part_size=5 * MIB)
    storage.write("a", [CONTENT])
    proxy.seen.clear()
    proxy.fail("GET", Cut(after=3 * MIB))
    proxy.fail("GET", Cut(after=100), times=2)
    assert storage.read("a") == CONTENT
    ranges = [seen.headers["Range"] for seen in proxy.seen]
    assert f"bytes={3 * MIB}-{5 * MIB - 1}" in ranges
    assert len(ranges) == 6
    assert all("If-Match" in seen.headers for seen in proxy.seen[1:])


def test_a_read_whose_connection_breaks_without_end_is_an_error(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage()
    storage.write("a", [b"abcdef"])
    proxy.fail("GET", Cut(after=0), times=MANY)
    with pytest.raises(StorageError, match=r"^a: the connection broke 5 times$"):
        storage.read("a")


class Garbled(BytesIO):
    """A body whose encryption is damaged on the way."""

    def read(self, _size: int | None = -1, /) -> bytes:
        raise SSLError("bad record")


def test_a_read_whose_encryption_is_damaged_goes_on(moto_place: Place) -> None:
    storage = moto_place.storage()
    tag = storage.write("a", [b"abc"]).tag
    opened = _Object(storage._bucket, "a", 3, f'"{tag}"')
    assert opened.fetch(0, 3, Garbled()) == b"abc"
    assert storage.requests["get"] == 1


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage(part_size=5 * MIB)
    storage.write("a", [CONTENT])
    with storage.open("a") as stream:
        assert stream.read(MIB) == CONTENT[:MIB]
        storage.write("a", [bytes(12 * MIB)], overwrite=True)
        with pytest.raises(Superseded, match=r"^a: was replaced while it was read"):
            stream.read()
        # What failed does not look like the end afterwards.
        with pytest.raises(StorageError, match="were not read"):
            stream.read()
    # The same when the connection broke in between.
    replace = Then(lambda: storage.write("a", [CONTENT], overwrite=True))
    proxy.fail("GET", Cut(after=10), times=2)  # a quick read that fails is repeated whole
    proxy.fail("GET", replace)
    with pytest.raises(Superseded):
        storage.read("a")


def test_a_server_without_ranges_gives_small_files_only(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage(part_size=5 * MIB)
    storage.write("small", [b"abc"])
    storage.write("large", [CONTENT])
    proxy.hide("Range")
    assert storage.read("small") == b"abc"
    with pytest.raises(StorageError, match=r"^large: the server did not answer with the range"):
        storage.read("large")
    proxy.fail("GET", Cut(after=1))
    with pytest.raises(StorageError, match=r"did not answer with the range bytes=1-2$"):
        storage.read("small")


def test_an_object_that_is_deleted_while_it_is_read_is_not_found(broken: Place) -> None:
    storage = broken.storage(part_size=5 * MIB)
    storage.write("a", [CONTENT])
    with storage.open("a") as stream:
        storage.delete("a")
        with pytest.raises(NotFoundError):
            stream.read()


# -- what is not whole is not "nothing there"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<ListBucketResult></ListBucketResult>",
        b"<ListBucketResult><IsTruncated>true</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>",
        b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>2</KeyCount></ListBucketResult>",
        b"<ListBucketResult><IsTruncated>false</IsTrun",
        b"<html>Welcome to the airport's WiFi</html>",
        b"Welcome",
    ],
)
def test_a_listing_that_is_none_is_an_error(broken: Place, proxy: FaultProxy, body: bytes) -> None:
    storage = broken.storage()
    proxy.fail("GET", Answer(200, body))
    with pytest.raises(
        StorageError, match=r"^state/: the server('s listing| failed or is too busy)"
    ):
        list(storage.list("state"))


def test_a_listing_that_fails_in_the_middle_is_an_error(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage()
    for number in range(3):
        storage.write(f"a/{number}", [b""])
    first = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated><KeyCount>1</KeyCount>"
        b"<NextContinuationToken>t</NextContinuationToken><Contents><Key>some/checkpoint/a/0</Key>"
        b"<Size>0</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        b"</ListBucketResult>"
    )
    proxy.fail("GET", Answer(200, first))
    proxy.fail("GET", Answer(500, error("InternalError")))
    with pytest.raises(StorageError, match="too busy"):
        list(storage.list("a"))
    proxy.fail("GET", Answer(200, first), times=2)
    with pytest.raises(StorageError, match="does not continue where it should"):
        list(storage.list("a"))


@pytest.mark.parametrize("verb", ["stat", "read"])
def test_only_a_certain_answer_is_not_found(broken: Place, proxy: FaultProxy, verb: str) -> None:
    storage = broken.storage()
    proxy.fail("GET", Answer(404, b"<html>no such page</html>"))
    proxy.fail("HEAD", Answer(404), times=2)
    with pytest.raises(StorageError) as caught:
        getattr(storage, verb)("a")
    assert not isinstance(caught.value, NotFoundError)


# -- writing


def test_a_server_that_dies_in_a_multipart_upload_leaves_no_file(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage(part_size=5 * MIB)
    proxy.fail("PUT", Lost(), times=MANY, when=about("partNumber=2"))
    with pytest.raises(
        StorageError, match=r"^a: the connection to the S3 endpoint broke"
    ) as caught:
        storage.write("a", [CONTENT])
    assert (caught.value.exit_code, paths(storage)) == (5, [])
    assert broken.uploads(storage) == []


def test_an_upload_that_cannot_be_completed_is_aborted(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage(part_size=5 * MIB)
    proxy.fail("POST", Answer(503, error("SlowDown")), when=about("uploadId"))
    with pytest.raises(StorageError, match=r"too busy \(SlowDown\)"):
        storage.write("a", [CONTENT])
    assert (paths(storage), broken.uploads(storage)) == ([], [])


def test_a_file_that_appears_while_another_is_uploaded_is_kept(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage(part_size=5 * MIB)
    appear = Then(lambda: storage.write("a", [b"theirs"]))
    # before the look at what is there, and between that look and the end
    for method, part in (("HEAD", "/a"), ("POST", "uploadId")):
        storage.delete("a")
        proxy.fail(method, appear, when=about(part))
        with pytest.raises(AlreadyExistsError):
            storage.write("a", [CONTENT])
        assert storage.read("a") == b"theirs"
        assert broken.uploads(storage) == []


def test_a_write_whose_answer_was_lost_is_ours(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage(attempts=2)
    assert storage.exclusive
    proxy.fail("PUT", Lost())
    assert storage.write("a", [b"ours"]).size == 4
    proxy.fail("PUT", Lost())
    storage.append("l", b"1\n")
    proxy.fail("PUT", Lost(), when=lambda seen: seen.target.endswith("/l"))
    storage.append("l", b"2\n")
    assert storage.read("l") == b"1\n2\n"


def test_a_lost_answer_does_not_hide_another_writer(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage(attempts=2)
    assert storage.exclusive
    proxy.fail("PUT", Then(lambda: storage.write("a", [b"theirs"])))
    with pytest.raises(AlreadyExistsError):
        storage.write("a", [b"ours"])
    assert storage.read("a") == b"theirs"


def test_a_conflict_of_two_conditional_writes_is_tried_again(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage()
    assert storage.exclusive
    conflict = Answer(409, error("ConditionalRequestConflict"))
    proxy.fail("PUT", conflict, times=2)
    storage.write("a", [b"x"])
    proxy.fail("PUT", conflict, times=2)
    storage.append("l", b"1\n")
    storage.append("l", b"2\n")
    proxy.fail("PUT", conflict, times=MANY)
    with pytest.raises(StorageError, match="at each of 20 attempts"):
        storage.write("b", [b"x"])
    with pytest.raises(StorageError, match="at each of 20 attempts"):
        storage.append("l", b"3\n")


# -- servers without conditional writes


@pytest.mark.parametrize("how", ["ignored", "refused"])
def test_a_server_without_conditional_writes_is_not_exclusive(
    broken: Place, proxy: FaultProxy, how: str
) -> None:
    storage = broken.storage(part_size=5 * MIB)
    if how == "ignored":
        proxy.hide("If-None-Match")
        proxy.hide("If-Match")
    else:
        refused = Answer(501, error("NotImplemented"))
        proxy.fail("PUT", refused, times=MANY, when=_conditional)
    assert storage.exclusive is False
    storage.write("a", [b"first"])
    with pytest.raises(AlreadyExistsError):
        storage.write("a", [b"second"])
    with pytest.raises(AlreadyExistsError):
        storage.write("a", [CONTENT])
    storage.append("l", b"1\n")
    storage.append("l", b"2\n")
    assert (storage.read("a"), storage.read("l")) == (b"first", b"1\n2\n")
    assert paths(storage) == ["a", "l"]


def _conditional(seen: Seen) -> bool:
    return "If-None-Match" in seen.headers or "If-Match" in seen.headers


def test_a_probe_that_fails_is_no_answer(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage()
    proxy.fail("PUT", Answer(403, error("AccessDenied")))
    with pytest.raises(StorageError, match="s3:PutObject is not allowed"):
        storage.write("a", [b"x"])
    assert storage.exclusive is True


# -- deleting


def deletion(*refused: tuple[str, str]) -> Answer:
    errors = "".join(
        f"<Error><Key>some/checkpoint/{path}</Key><Code>{code}</Code></Error>"
        for path, code in refused
    )
    return Answer(200, f"<DeleteResult>{errors}</DeleteResult>".encode())


def test_each_file_that_was_not_deleted_is_counted(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage()
    proxy.fail("POST", deletion(("a/1", "AccessDenied"), ("a/7", "AccessDenied")))
    words = (
        r"^a/1: not deleted \(and 1 more\): access denied, s3:DeleteObject is not allowed; "
        r"grant it on arn:aws:s3:::b\w+/some/checkpoint/\*$"
    )
    with pytest.raises(StorageError, match=words) as caught:
        storage.delete_all([f"a/{number}" for number in range(450)])
    assert caught.value.exit_code == 5
    assert proxy.count("POST") == 3  # the other pages went all the same, 200 at most in each


def test_only_what_the_server_was_too_busy_for_is_deleted_again(
    broken: Place, proxy: FaultProxy
) -> None:
    waits: list[float] = []
    storage = broken.storage(sleep=waits.append)
    for path in ("a/1", "a/2"):
        storage.write(path, [b"x"])
    proxy.fail("POST", deletion(("a/1", "SlowDown"), ("a/2", "SlowDown")))
    proxy.fail("POST", deletion(("a/1", "InternalError")))
    storage.delete_all(["a/1", "a/2"])
    assert waits == [0.5, 1.0]
    assert paths(storage) == ["a/2"]  # of which the second answer said that it was gone
    proxy.fail("POST", deletion(("a/2", "SlowDown")), times=MANY)
    with pytest.raises(StorageError, match=r"^a/2: not deleted: SlowDown$"):
        storage.delete_all(["a/2"])
    assert waits[2:] == [0.5, 1.0, 2.0, 4.0]


# -- moving


def test_a_move_that_fails_leaves_the_file(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage()
    storage.write("a", [b"x"])
    proxy.fail("PUT", Answer(403, error("AccessDenied")))
    with pytest.raises(StorageError, match=r"^b: access denied, s3:GetObject and s3:PutObject"):
        storage.move("a", "b")
    proxy.fail("DELETE", Answer(403, error("AccessDenied")))
    with pytest.raises(StorageError, match=r"^a: access denied, s3:DeleteObject"):
        storage.move("a", "b")
    assert paths(storage) == ["a", "b"]


# -- the way there


@pytest.mark.parametrize(
    ("status", "code"), [(503, "SlowDown"), (503, "ServiceUnavailable"), (500, "UnknownError")]
)
def test_a_server_that_fails_is_waited_for_by_botocore_and_then_named(
    broken: Place, proxy: FaultProxy, status: int, code: str
) -> None:
    storage = broken.storage(attempts=2)
    storage.write("a", [b"x"])
    proxy.fail("GET", Answer(status, error(code)))
    before = storage.requests["head"]
    assert storage.read("a") == b"x"
    assert storage.requests["get"] == 2  # the one that was retried is counted too
    assert storage.requests["head"] == before
    proxy.fail("GET", Answer(status, error(code)), times=MANY)
    with pytest.raises(StorageError, match=rf"^a: the server failed or is too busy \({code}\)"):
        storage.read("a")


def test_a_refusal_for_another_reason_than_rights_is_quoted(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage()
    proxy.fail("GET", Answer(403, error("InvalidObjectState", "The object is archived")))
    why = r"^a: GetObject failed: InvalidObjectState: The object is archived; bucket "
    with pytest.raises(StorageError, match=why):
        storage.read("a")


def test_a_refusal_that_breaks_off_is_an_error(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage()
    proxy.fail("GET", Half(503))
    with pytest.raises(StorageError, match=r"^a: the connection to the S3 endpoint broke"):
        storage.read("a")


@pytest.mark.parametrize("code", ["PermanentRedirect", "AuthorizationHeaderMalformed"])
def test_another_region_is_said(broken: Place, proxy: FaultProxy, code: str) -> None:
    storage = broken.storage()
    proxy.fail("GET", Answer(400, error(code)), times=MANY)
    with pytest.raises(StorageError, match=rf"another region \({code}\); set AWS_REGION"):
        list(storage.list("a"))


def test_another_answer_is_quoted_in_one_line(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage()
    proxy.fail("GET", Answer(418, error("Teapot", "short\n\nand stout " + 500 * "x")))
    with pytest.raises(
        StorageError, match=r"^a: GetObject failed: Teapot: short and stout x+; bucket "
    ) as e:
        storage.read("a")
    assert len(str(e.value)) < 400


def test_an_endpoint_that_is_not_there_is_said() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        storage = Place(url).storage("s3://bucket/ck")
        with pytest.raises(
            StorageError, match=rf"^a: the S3 endpoint .*; bucket bucket, endpoint {url}$"
        ) as caught:
            storage.read("a")
        with pytest.raises(StorageError, match=r"^s3://bucket: the S3 endpoint cannot be reached"):
            storage.now()
    assert caught.value.exit_code == 5


def test_no_credentials_are_said(moto_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    storage = S3Storage("s3://bucket/ck", S3Options(endpoint=moto_place.url, region="us-east-1"))
    with pytest.raises(StorageError, match=r"^a: no credentials were found by"):
        storage.read("a")


def test_a_server_without_a_date_has_no_clock(
    broken: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = broken.storage()
    monkeypatch.setattr(storage._bucket.shared.clock, "answered", lambda _: None)
    with pytest.raises(StorageError, match="does not report its time"):
        storage.now()


def test_the_clock_stays_within_what_the_answers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monotonic = 100.0
    monkeypatch.setattr("statemaint.storage.s3.client.time.monotonic", lambda: monotonic)
    clock = ServerClock()
    assert clock.now() is None

    def answer(seconds: int) -> float | None:
        clock.sent()
        clock.answered(f"Thu, 01 Jan 1970 00:00:{seconds:02d} GMT")
        return clock.now()

    assert answer(10) == 10
    monotonic = 100.5
    assert answer(10) == 10.5  # no jump back to the whole second
    assert answer(11) == 11
    monotonic = 101.25
    assert answer(11) == 11.75
    assert answer(5) == 6  # the server's clock was put back
    clock.answered("yesterday")
    assert clock.now() == 6


# -- settings


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith(("AWS_", "STATEMAINT_S3_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return monkeypatch


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_an_address_opens_with_the_environment(
    moto_place: Place, clean: pytest.MonkeyPatch, scheme: str
) -> None:
    bucket = moto_place.bucket()
    moto_place.storage(f"s3://{bucket}/a b#c?d").write("x", [b"1"])
    clean.setenv("STATEMAINT_S3_ENDPOINT", moto_place.url)
    clean.setenv("AWS_ACCESS_KEY_ID", "an-access-key")
    clean.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-key")
    storage = open_storage(f"{scheme}://{bucket}/a b#c?d")
    assert (storage.root, storage.read("x")) == (f"{scheme}://{bucket}/a b#c?d", b"1")


@pytest.mark.parametrize(
    "address", ["s3://", "s3:///a", "s3:/b/a", "s3a:b/a", "S3://b/a", "s3://b%20c/a", "s3://b c/d"]
)
def test_an_address_without_a_bucket_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="not an address of S3"):
        open_storage(address)


@pytest.mark.parametrize("scheme", ["s3n://", "s3a:/"])
def test_an_address_with_credentials_is_refused_and_not_repeated(scheme: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_storage(f"{scheme}AKIAKEY:topsecret@bucket/ck")
    assert "topsecret" not in str(caught.value)
    assert "AKIAKEY" not in repr(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"SSE": "DES"}, "STATEMAINT_S3_SSE: 'DES' is not one of AES256, aws:kms, aws:kms:dsse"),
        ({"SSE_KMS_KEY_ID": "k"}, "STATEMAINT_S3_SSE_KMS_KEY_ID needs STATEMAINT_S3_SSE=aws:kms"),
        ({"REQUESTER_PAYS": "maybe"}, "STATEMAINT_S3_REQUESTER_PAYS: 'maybe' is neither"),
        ({"PATH_STYLE": "2"}, "STATEMAINT_S3_PATH_STYLE: '2' is neither"),
        ({"RETRY_MODE": "legacy"}, "STATEMAINT_S3_RETRY_MODE: 'legacy' is not one of standard, ad"),
        ({"ENDPOINT": "minio:9000"}, "STATEMAINT_S3_ENDPOINT must be"),
        ({"ENDPOINT": "http://me:topsecret@minio"}, "STATEMAINT_S3_ENDPOINT must be"),
        ({"ENDPOINT": "http://[minio"}, "STATEMAINT_S3_ENDPOINT must be"),
        ({"ENDPOINT": "http://minio:99999"}, "STATEMAINT_S3_ENDPOINT must be"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_named(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        options_from({f"STATEMAINT_S3_{name}": value for name, value in settings.items()})
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_PROFILE", "nobody"), ("AWS_ENDPOINT_URL", "me:topsecret@nowhere")]
)
def test_what_boto3_cannot_mean_is_a_configuration_error(
    clean: pytest.MonkeyPatch, name: str, value: str
) -> None:
    clean.setenv(name, value)
    with pytest.raises(ConfigError, match="S3 cannot be set up") as caught:
        open_storage("s3://bucket/ck")
    assert "topsecret" not in str(caught.value)


def test_settings_reach_the_server(broken: Place, proxy: FaultProxy) -> None:
    settings = {
        "STATEMAINT_S3_ENDPOINT": proxy.url,
        "STATEMAINT_S3_SSE": "aws:kms",
        "STATEMAINT_S3_SSE_KMS_KEY_ID": "a-key",
        "STATEMAINT_S3_REQUESTER_PAYS": "true",
        "STATEMAINT_S3_PATH_STYLE": "yes",
        "STATEMAINT_S3_RETRY_MODE": "adaptive",
    }
    options = options_from(settings)
    assert (options.path_style, options.retry_mode) == (True, "adaptive")
    bucket = broken.bucket()
    storage = broken.storage(
        f"s3://{bucket}/ck",
        part_size=5 * MIB,
        sse=options.sse,
        sse_kms_key_id=options.sse_kms_key_id,
        requester_pays=options.requester_pays,
        path_style=options.path_style,
        retry_mode=options.retry_mode,
    )
    proxy.seen.clear()
    storage.write("a", [CONTENT])
    storage.write("b", [b"x"])
    storage.move("b", "c")
    storage.delete_all(["c"])
    list(storage.list(""))
    assert storage.read("a") == CONTENT
    seen = [one for one in proxy.seen if one.target != f"/{bucket}"]  # whether that one is there
    headers = [{name.lower(): value for name, value in one.headers.items()} for one in seen]
    assert {one.get("x-amz-request-payer") for one in headers} == {"requester"}
    creates = [
        one
        for one, request in zip(headers, seen, strict=True)
        if (request.method == "PUT" and "partNumber" not in request.target)
        or request.target.endswith("?uploads")
    ]
    assert len(creates) >= 4
    assert {one["x-amz-server-side-encryption"] for one in creates} == {"aws:kms"}
    assert {one["x-amz-server-side-encryption-aws-kms-key-id"] for one in creates} == {"a-key"}


def test_uploads_and_deletions_carry_a_checksum(broken: Place, proxy: FaultProxy) -> None:
    storage = broken.storage(part_size=5 * MIB)
    storage.write("a", [CONTENT])
    storage.write("b", [b"x"])
    storage.delete_all(["a"])
    sent = [one for one in proxy.seen if one.method == "PUT" and one.headers.get("Content-Length")]
    sent += [one for one in proxy.seen if one.target.endswith("?delete")]
    assert len(sent) >= 5
    bucket = [one for one in sent if one.target.count("/") == 1 and "?" not in one.target]
    assert all("Content-MD5" in one.headers for one in sent if one not in bucket)


def test_no_secret_is_in_what_can_be_printed(moto_place: Place) -> None:
    storage = moto_place.storage()
    storage.write("a", [b"x"])
    printed = repr((storage, storage._bucket, storage._bucket.options, storage._probe))
    assert moto_place.secret_key not in printed
    assert "session" not in printed


def test_boto3_is_loaded_for_s3_only(tmp_path: Path) -> None:
    code = (
        "import sys; from statemaint.storage import open_storage; open_storage(sys.argv[1]);"
        "sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
