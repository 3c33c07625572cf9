"""Commit log, offset log, operator metadata."""

import pytest

from statemaint.codec import logs
from statemaint.errors import CodecError
from tests.support.checkpoints import COMMIT, offsets_bytes

OPERATOR = (
    b'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},"stateStoreInfo":'
    b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
)


def test_reads_the_query_id() -> None:
    assert logs.parse_query_id(b'{"id":"abc"}') == "abc"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"id":5}', b'{"id":"\\ud800"}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_malformed_query_id_is_an_error(content: bytes) -> None:
    with pytest.raises(CodecError):
        logs.parse_query_id(content)


@pytest.mark.parametrize("version", [b"v1", b"v2", b"v3"])
def test_accepts_every_known_commit_format(version: bytes) -> None:
    logs.check_commit(version + COMMIT[2:])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "version line"),
        (b"v1", "not JSON"),
        (b"v1\n", "not JSON"),
        (b'v1\n{"next', "not JSON"),
        (b"v1\n5", "not a JSON object"),
        (b"v9\n{}", "newer"),
        (b"x\n{}", "version line"),
        (b"v1\n\xff", "UTF-8"),
    ],
)
def test_a_malformed_commit_is_an_error(content: bytes, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        logs.check_commit(content)


def test_reads_the_pinned_settings() -> None:
    conf = logs.parse_conf(offsets_bytes(codec="zstd"))
    assert conf["spark.sql.streaming.stateStore.compression.codec"] == "zstd"


def test_an_offset_entry_of_a_query_without_settings_has_none() -> None:
    assert not logs.parse_conf(b'v1\n{"batchWatermarkMs":0}\n-')


def test_settings_that_are_no_map_are_an_error() -> None:
    with pytest.raises(CodecError, match="not a map"):
        logs.parse_conf(b'v1\n{"conf":[]}')


def test_reads_an_operators_stores() -> None:
    assert logs.parse_operator(OPERATOR) == logs.OperatorMetadata(
        0, "stateStoreSave", ("default",), 2
    )


@pytest.mark.parametrize(
    "content",
    [
        b"v1\n{}",
        b'v1\n{"operatorInfo":{},"stateStoreInfo":[]}',
        OPERATOR[:60],
        OPERATOR.replace(b'Partitions":2', b'Partitions":1e999'),
        OPERATOR.replace(b'"default"', b'"../../1"'),
        OPERATOR.replace(b'"default"', b'""'),
        OPERATOR.replace(b'"default"', b"7"),
    ],
)
def test_malformed_operator_metadata_is_an_error(content: bytes) -> None:
    with pytest.raises(CodecError):
        logs.parse_operator(content)
