"""Everything that a restart after a batch asks for, but state and the query's id."""

import re

import pytest

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, DamagedError, NotFoundError
from statemaint.planning import scan_checkpoint
from statemaint.savepoint.logs import logs_of, unchecked_sources
from statemaint.storage import MemoryStorage
from tests.support.archived import archived
from tests.support.checkpoints import COMMIT, offsets_bytes, write_checkpoint

IDS = ("rocks-4.3.0", "rocks-join2-ids")


def saved(
    storage: MemoryStorage, batch: int, ids: logs.UniqueIds | None = None
) -> dict[str, bytes]:
    checkpoint = scan_checkpoint(storage)
    found = logs_of(storage, checkpoint, batch, to="/to", ids=ids or {}, partitions={}, conf={})
    return {path: b"".join(chunks) for path, chunks in found}


def reading(*sources: str, newest: bool = True) -> MemoryStorage:
    """Returns a checkpoint of batches 0 to 3, whose batch 2 had read its sources so far."""
    storage = write_checkpoint(MemoryStorage(), last=4, batches=range(4))
    for batch in range(4):
        lines = [one if batch == 2 else one.replace("2", str(batch)) for one in sources]
        text = "\n".join(lines if newest or batch < 3 else ["-"] * len(lines))
        content = offsets_bytes().removesuffix(b"-") + text.encode()
        storage.write(f"offsets/{batch}", [content], overwrite=True)
    return storage


def test_the_commit_comes_last_and_nothing_of_another_batch_comes() -> None:
    storage = archived(("4.3.0", "join2"))
    paths = list(saved(storage, 9))
    assert paths[-3:] == ["offsets/8", "offsets/9", "commits/9"]
    assert {path.split("/")[0] for path in paths[:-3]} == {"sources", "state"}
    assert all(saved(storage, 9)[path] == storage.read(path) for path in paths)


def test_the_first_batch_has_none_before_it() -> None:
    assert list(saved(reading("-"), 0)) == ["offsets/0", "commits/0"]


def test_other_unique_ids_are_all_that_changes_in_a_commit() -> None:
    storage = archived(IDS)
    content = storage.read("commits/9")
    (partitions,) = logs.parse_commit(content).values()
    ids = {0: tuple(tuple(f"new-{one}" for one in stores) for stores in partitions)}
    changed = saved(storage, 9, ids)["commits/9"]
    assert logs.parse_commit(changed) == ids
    assert changed.replace(b"new-", b"") == content
    alone = re.sub(rb',"stateUniqueIds":.*\}', b"}", content).replace(b"v2", b"v1")
    assert saved(storage, 9)["commits/9"] == alone


@pytest.mark.parametrize("path", ["offsets/1", "offsets/2"])
def test_a_missing_entry_is_named_with_what_to_do(path: str) -> None:
    storage = reading("-")
    storage.delete(path)
    with pytest.raises(DamagedError, match=f"^{path}: is missing.*save a newer batch"):
        saved(storage, 2)


@pytest.mark.parametrize("path", ["offsets/1", "offsets/2", "commits/2"])
def test_an_entry_that_is_deleted_meanwhile_is_no_damage(path: str) -> None:
    storage = reading("-")
    checkpoint = scan_checkpoint(storage)
    storage.delete(path)
    with pytest.raises(NotFoundError, match=f"^{path}: "):
        list(logs_of(storage, checkpoint, 2, to="/to", ids={}, partitions={}, conf={}))


@pytest.mark.parametrize("path", ["offsets/1", "offsets/2", "commits/2"])
def test_an_entry_that_cannot_be_read_is_named(path: str) -> None:
    storage = reading("-")
    checkpoint = scan_checkpoint(storage)
    storage.write(path, [b"v9\n{}"], overwrite=True)
    with pytest.raises(CodecError, match=f"^{path}: "):
        list(logs_of(storage, checkpoint, 2, to="/to", ids={}, partitions={}, conf={}))


def test_a_file_source_has_read_nothing_after_the_batch() -> None:
    storage = reading('{"logOffset":2}')
    for number in range(5):
        storage.write(f"sources/0/{number}", [b'v1\n{"batchId":%d}' % number])
        storage.write(f"sources/0/.{number}.crc", [b"crc"])
    found = [path for path in saved(storage, 2) if path.startswith("sources/")]
    assert found == ["sources/0/0", "sources/0/1", "sources/0/2"]


def test_a_file_source_without_its_log_is_damage() -> None:
    storage = reading("-", '{"logOffset":2}')
    with pytest.raises(DamagedError, match=r"^sources/1: is missing") as caught:
        saved(storage, 2)
    assert caught.value.code == "MISSING_SOURCE_LOG"


def test_the_folder_of_another_source_is_copied_as_it_is() -> None:
    storage = reading('{"topic":{"0":2}}', "-")
    storage.write("sources/0/0", [b'v1\n{"topic":{"0":17}}'])
    storage.write("sources/0/.0.crc", [b"crc"])
    storage.write("sources/1/deep/er", [b"unknown"])
    files = saved(storage, 2)
    assert files["sources/0/0"] == b'v1\n{"topic":{"0":17}}'
    assert files["sources/1/deep/er"] == b"unknown"
    assert "sources/0/.0.crc" not in files


def test_a_file_source_that_had_read_nothing_begins_anew() -> None:
    storage = reading("-")
    newest = offsets_bytes().removesuffix(b"-") + b'{"logOffset":0}'
    storage.write("offsets/3", [newest], overwrite=True)
    storage.write("sources/0/0", [b'v1\n{"batchId":0}'])
    assert not [path for path in saved(storage, 2) if path.startswith("sources/")]


def test_a_source_that_the_batch_before_had_not_read_needs_all_its_entries() -> None:
    storage = reading('{"logOffset":2}')
    storage.write("offsets/1", [offsets_bytes()], overwrite=True)
    storage.write("sources/0/2", [b'v1\n{"batchId":2}'])
    with pytest.raises(DamagedError, match=r"^sources/0/1: "):
        saved(storage, 2)


def test_schemas_of_a_delta_table_come_along_and_other_folders_do_not() -> None:
    storage = reading("-")
    schemas = "_schemas/_schema_log_1f2e/00000000000000000000.json"
    storage.write(schemas, [b"{}"])
    storage.write("_schemas/_schema_log_1f2e/.0.crc", [b"crc"])
    storage.write("output/part-0.json", [b"{}"])
    storage.write("_statemaint/runs/_schema_log_x/1", [b"{}"])
    assert set(saved(storage, 2)) == {schemas, "offsets/1", "offsets/2", "commits/2"}


def test_a_file_is_read_when_its_content_is() -> None:
    storage = reading("-")
    storage.write("sources/0/0", [b"v1"])
    for path, chunks in logs_of(
        storage, scan_checkpoint(storage), 2, to="/to", ids={}, partitions={}, conf={}
    ):
        if path == "sources/0/0":
            storage.write("sources/0/0", [b"v1\n"], overwrite=True)
            assert b"".join(chunks) == b"v1\n"


def test_a_commit_of_structure_v1_stays_as_it_is() -> None:
    assert saved(reading("-"), 2)["commits/2"] == COMMIT


# -- what can be seen of the sources

KAFKA = '{"clicks":{"0":12,"1":0},"orders":{"0":-1}}'


def unchecked(*sources: str) -> tuple[str, ...]:
    content = offsets_bytes().removesuffix(b"-") + "\n".join(sources).encode()
    return unchecked_sources("offsets/7", content)


def test_sources_whose_offsets_say_nothing_are_named() -> None:
    delta = '{"sourceVersion":1,"reservoirId":"x","index":3}'
    known = ('{"logOffset":4}', KAFKA, "-")
    assert unchecked(*known) == ()
    others = ("12", delta, "{}", '{"cursor":null}', "mine")
    assert unchecked(*known, *others) == ("3", "4", "5", "6", "7")
    nested = ('{"parts":{"0":{"offset":5}}}', '{"parts":{"0":[]},"at":5}', '{"open":{},"at":5}')
    assert unchecked(*known, *nested) == ("3", "4", "5")


@pytest.mark.parametrize(
    "text",
    ["", "null", '{"clicks":{}}', '{"clicks":{"0":null}}', '{"clicks":{"0":1},"orders":null}',
     '{"clicks":{"0":true}}', '{"clicks":{"0":"4"},"orders":{"0":1}}'],
)  # fmt: skip
def test_an_offset_that_is_empty_is_refused(text: str) -> None:
    shown = re.escape(repr(text) if text else "nothing")
    with pytest.raises(DamagedError, match=f"^offsets/7: source 1 has {shown} in place of an"):
        unchecked(KAFKA, text, KAFKA)


def test_a_deep_offset_is_of_no_known_form() -> None:
    assert unchecked("[" * 100_000) == ("0",)
