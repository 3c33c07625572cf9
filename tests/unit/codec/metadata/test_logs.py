"""Commit log, offset log, operator metadata."""

import json

import pytest

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError
from tests.support import rocks_files
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
    with pytest.raises(CodecError) as caught:
        logs.parse_query_id(content)
    assert caught.value.offset == 0


@pytest.mark.parametrize("version", [b"v1", b"v2", b"v3"])
def test_accepts_every_known_commit_format(version: bytes) -> None:
    logs.check_commit(version + COMMIT[2:])


@pytest.mark.parametrize(
    ("content", "offset", "text"),
    [
        (b"", 0, "version line"),
        (b"v1", 3, "not JSON"),
        (b"v1\n", 3, "not JSON"),
        (b'v1\n{"next', 3, "not JSON"),
        (b"v1\n5", 3, "not a JSON object"),
        (b"v9\n{}", 0, "newer"),
        (b"v9999\n{}", 0, "newer"),
        (b"v10000\n{}", 0, "version line"),
        (b"x\n{}", 0, "version line"),
        (b"v1\n\xff", 3, "UTF-8"),
    ],
)
def test_a_malformed_commit_is_an_error_with_its_place(
    content: bytes, offset: int, text: str
) -> None:
    for read in (logs.check_commit, logs.parse_commit):
        with pytest.raises(CodecError, match=text) as caught:
            read(content)
        assert caught.value.offset == offset


def commit(ids: str, version: int = 2) -> bytes:
    return f'v{version}\n{{"nextBatchWatermarkMs":0,"stateUniqueIds":{ids}}}'.encode()


def test_reads_the_unique_ids_that_spark_wrote() -> None:
    assert logs.parse_commit(rocks_files.COMMIT_2) == {
        0: (("98676881-f967-4847-a1f1-d8c6d27591f6",),)
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_unique_ids_are_by_operator_partition_and_store(version: int) -> None:
    ids = '{"0":[["a"],["b"]],"12":[["c","d","e","f"]],"3":[]}'
    assert logs.parse_commit(commit(ids, version)) == {
        0: (("a",), ("b",)),
        12: (("c", "d", "e", "f"),),
        3: (),
    }


@pytest.mark.parametrize("content", [COMMIT, commit("{}"), commit("null"), commit("{}", 1)])
def test_a_commit_may_have_no_unique_ids(content: bytes) -> None:
    assert logs.parse_commit(content) == {}


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ("5", "cannot be '5'"),
        ("[]", "cannot be"),
        ("false", "cannot be"),
        ('{"0":5}', "cannot be"),
        ('{"0":"ab"}', "cannot be"),
        ('{"0":["ab"]}', "cannot be"),
        ('{"0":{"0":["ab"]}}', "cannot be"),
        ('{"0":[null]}', "cannot be"),
        ('{"0":[[null]]}', "unique id 'None' is not valid"),
        ('{"0":[[""]]}', "unique id '' is not valid"),
        ('{"0":[["../a"]]}', "unique id '../a' is not valid"),
        ('{"0":[["a.b"]]}', "is not valid"),
        ('{"0":[["a_b"]]}', "is not valid"),
        ('{"0":[["-a"]]}', "is not valid"),
        ('{"0":[["a\\n"]]}', "is not valid"),
        ('{"0":[["é"]]}', "is not valid"),
        (f'{{"0":[["{"a" * 65}"]]}}', "is not valid"),
        ('{"":[]}', "operator '' is not valid"),
        ('{"-1":[]}', "operator '-1' is not valid"),
        ('{"x":[]}', "operator 'x' is not valid"),
        ('{"1234567890":[]}', "operator '1234567890' is not valid"),
        ('{"0":[],"00":[]}', "operator '00' is not valid"),
    ],
)
def test_unique_ids_that_cannot_be_are_an_error(ids: str, text: str) -> None:
    with pytest.raises(CodecError, match=text) as caught:
        logs.parse_commit(commit(ids))
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("ids", "valid"),
    [
        ([], True),
        (["a", "b-2"], True),
        (["a", ""], False),
        (["a", "../b"], False),
        (["a\nb"], False),
        (["a\n", "b"], False),
    ],
)
def test_ids_are_valid_together_if_each_is(ids: list[str], valid: bool) -> None:  # noqa: FBT001
    assert logs.are_unique_ids(ids) == valid


LONG = "x" * 90


@pytest.mark.parametrize(
    "ids",
    [f'"{LONG}"', f'{{"{LONG}":[]}}', f'{{"0":[["{LONG}"]]}}'],
    ids=["ids", "operator", "unique id"],
)
def test_of_a_long_id_80_characters_are_shown(ids: str) -> None:
    with pytest.raises(CodecError, match=f"'{LONG[:80]}'"):
        logs.parse_commit(commit(ids))


def test_reads_the_pinned_settings() -> None:
    conf = logs.parse_conf(offsets_bytes(codec="zstd"))
    assert conf["spark.sql.streaming.stateStore.compression.codec"] == "zstd"


def test_an_offset_entry_of_a_query_without_settings_has_none() -> None:
    assert not logs.parse_conf(b'v1\n{"batchWatermarkMs":0}\n-')


def test_settings_that_are_no_map_are_an_error() -> None:
    with pytest.raises(CodecError, match="not a map") as caught:
        logs.parse_conf(b'v1\n{"conf":[]}')
    assert caught.value.offset == 0


@pytest.mark.parametrize("version", [b"v1", b"v2"])
def test_pinned_settings_are_replaced_and_all_else_stays(version: bytes) -> None:
    content = version + b'\n{"batchWatermarkMs":7,"conf":{"a":"1","b":"2"}}\n{"logOffset":3}'
    changed = logs.with_conf(content, {"b": "5"})
    assert changed == content.replace(b'"b":"2"', b'"b":"5"')


def test_an_offset_entry_of_format_1_has_its_sources_in_order() -> None:
    found = logs.parse_offsets(b'v1\n{"batchWatermarkMs":7}\n{"logOffset":12}\n-\n')
    assert found == logs.Offsets({}, 7, {"0": '{"logOffset":12}', "1": "-"}, 1)
    assert [found.file_offset(one) for one in ("0", "1", "2")] == [12, None, None]


def test_the_text_of_a_source_keeps_all_but_the_ends_of_lines() -> None:
    found = logs.parse_offsets(b"v1\n{}\n\t a \n bX \n\n")
    assert found.sources == {"0": "\t a ", "1": " bX "}
    assert logs.parse_offsets(b"v1\n{}\naX\n").sources == {"0": "aX"}


def test_an_offset_entry_of_format_2_names_its_sources() -> None:
    found = logs.parse_offsets(b'v2\n{}\n0:{"logOffset":3}\nevents:-')
    assert found == logs.Offsets({}, 0, {"0": '{"logOffset":3}', "events": "-"}, 2)


@pytest.mark.parametrize("watermark", ["null", '"7"', "{}"])
def test_a_watermark_that_is_no_number_is_none(watermark: str) -> None:
    assert logs.parse_offsets(f'v1\n{{"batchWatermarkMs":{watermark}}}'.encode()).watermark == 0


def test_reads_an_operators_stores() -> None:
    assert logs.parse_operator(OPERATOR) == logs.OperatorMetadata(
        0, "stateStoreSave", ("default",), 2
    )


def test_reads_what_spark_wrote_of_a_store_with_column_families() -> None:
    assert logs.parse_operator(rocks_files.OPERATOR_2) == logs.OperatorMetadata(
        0, "symmetricHashJoin", ("default",), 1, virtual_column_families=True
    )


@pytest.mark.parametrize(
    "properties", ["null", "5", '""', '"{}"', '"{\\"useVirtualColumnFamilies\\":false}"']
)
def test_an_operator_may_have_other_properties_or_none(properties: str) -> None:
    content = OPERATOR[:-1] + f',"operatorPropertiesJson":{properties}}}'.encode()
    assert not logs.parse_operator(content).virtual_column_families


@pytest.mark.parametrize(
    "content",
    [
        b"v1\n{}",
        b'v1\n{"operatorInfo":{},"stateStoreInfo":[]}',
        OPERATOR[:60],
        OPERATOR.replace(b'Partitions":2', b'Partitions":1e999'),
        OPERATOR.replace(b'Partitions":2', b'Partitions":0'),
        OPERATOR.replace(b'"default"', b'"../../1"'),
        OPERATOR.replace(b'"default"', b'""'),
        OPERATOR.replace(b'"default"', b"7"),
        OPERATOR[:-1] + b',"operatorPropertiesJson":"{"}',
        OPERATOR[:-1] + b',"operatorPropertiesJson":"[]"}',
    ],
)
def test_malformed_operator_metadata_is_an_error(content: bytes) -> None:
    with pytest.raises(CodecError) as caught:
        logs.parse_operator(content)
    assert caught.value.offset == (3 if content == OPERATOR[:60] else 0)


def test_a_million_partitions_are_the_most() -> None:
    assert logs.check_partitions(1_000_000) == 1_000_000
    with pytest.raises(CodecError, match="1000001 is not a valid number of partitions") as caught:
        logs.check_partitions(1_000_001)
    assert caught.value.offset == 0


def test_an_operator_says_what_its_rows_are() -> None:
    found = logs.parse_state_metadata(OPERATOR.replace(b'Key":0', b'Key":3'))
    assert found == logs.StateMetadata({"default": 3}, None, {"default": ()})


def test_of_the_places_of_schema_files_the_names_count() -> None:
    found = logs.parse_state_metadata(rocks_files.OPERATOR_2)
    (names,) = found.schemas.values()
    assert [name.partition("_")[0] for name in names] == ["0"]


def with_properties(variables: object, paths: str = '["file:/a/b/0_12-ab"]') -> bytes:
    return (
        f'v2\n{{"operatorInfo":{{}},"stateStoreInfo":[{{"storeName":"default","numColsPrefixKey":0,'
        f'"stateSchemaFilePaths":{paths}}}],'
        f'"operatorPropertiesJson":{json.dumps(json.dumps({"stateVariables": variables}))}}}'
    ).encode()


def test_lists_are_told_from_other_state_variables() -> None:
    kinds = {"a": "ListState", "b": "ValueState", "c": "MapState", "d": "ListState"}
    variables = [{"stateName": name, "stateVariableType": kind} for name, kind in kinds.items()]
    found = logs.parse_state_metadata(with_properties(variables))
    assert found.lists == frozenset({"a", "d"})
    assert found.schemas == {"default": ("0_12-ab",)}
    assert logs.parse_state_metadata(with_properties([])).lists == frozenset()
    assert logs.parse_state_metadata(with_properties(None)).lists is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"v1\n{}",
        b"v3" + OPERATOR[2:],
        OPERATOR.replace(b"0,", b'"x",'),
        with_properties(5),
        with_properties([{"stateVariableType": "ListState"}]),
        with_properties([], '["file:/a/b/.."]'),
        with_properties([], '["0_12/"]'),
        with_properties([], '"0_12-ab"'),
        with_properties([], "7"),
    ],
)
def test_malformed_metadata_of_rows_are_an_error(content: bytes) -> None:
    with pytest.raises(CodecError) as caught:
        logs.parse_state_metadata(content)
    assert caught.value.offset == 0


def test_the_name_of_a_schema_file_has_large_letters_or_small() -> None:
    content = with_properties([], '["a/3_0A-aZ", "4_b"]')
    assert logs.parse_state_metadata(content).schemas == {"default": ("3_0A-aZ", "4_b")}
    with pytest.raises(CodecError, match=f"schema file '{'x' * 80}' is not valid"):
        logs.parse_state_metadata(with_properties([], f'["{"x" * 90}"]'))


@pytest.mark.parametrize("version", [b"v1", b"v2", b"v3"])
def test_unique_ids_are_replaced_and_every_other_field_stays(version: bytes) -> None:
    text = '{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a"],["b"]]},"sink":{"x":"\u00e9"}}'
    content = version + b"\n" + text.encode()
    changed = logs.with_unique_ids(content, {0: (("c",), ("d",))})
    assert changed == content.replace(b'"a"', b'"c"').replace(b'"b"', b'"d"')
    assert logs.with_unique_ids(content + b"\nmore", {0: (("c",), ("d",))}) == changed + b"\nmore"


def test_a_commit_gets_unique_ids_and_loses_them() -> None:
    plain = b'v1\n{"nextBatchWatermarkMs":7}'
    ids = {0: (("a", "b"), ("c", "d"))}
    content = b'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a","b"],["c","d"]]}}'
    assert logs.with_unique_ids(plain, ids) == content
    assert logs.with_unique_ids(plain + b"\nmore", ids) == content + b"\nmore"
    assert logs.with_unique_ids(content, {}) == plain
    assert logs.with_unique_ids(content.replace(b"v2", b"v3"), ids)[:2] == b"v3"
    with pytest.raises(CodecError, match="log format v3"):
        logs.with_unique_ids(content.replace(b"v2", b"v3"), {})


@pytest.mark.parametrize(
    "content", [b"v2\n{}", b'v2\n{"stateStoreInfo":5}', b'v2\n{"stateStoreInfo":[7]}']
)
def test_paths_of_schemas_are_not_changed_in_anything_else(content: bytes) -> None:
    with pytest.raises(CodecError, match="not an operator's metadata") as caught:
        logs.with_stores(content, moved=str.upper)
    assert caught.value.offset == 0


def test_a_store_gets_other_paths_of_schemas_or_partitions_and_all_else_stays() -> None:
    content = with_properties([])
    moved = logs.with_stores(content, moved=str.upper)
    assert moved == content.replace(b"file:/a/b/0_12-ab", b"FILE:/A/B/0_12-AB")
    assert logs.with_stores(OPERATOR, moved=str.upper) == OPERATOR
    changed = logs.with_stores(OPERATOR, partitions=5)
    assert changed == OPERATOR.replace(b'Partitions":2', b'Partitions":5')
