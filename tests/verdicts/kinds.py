"""The kinds of damage and oddity of the verdict matrix."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from statemaint.codec.integrity.checksum_file import hadoop
from tests.matrix.test_damage import another_id, cut, empty, gone
from tests.verdicts.damages import (
    BASE,
    LAST,
    ROCKS,
    TOP,
    UUID,
    WITHOUT_IDS,
    Damage,
    History,
    Kind,
    both,
    change,
    directory,
    file_instead,
    in_checkpoint,
    lost,
    removed,
    snapshot,
    spoilt,
    stray,
)
from tests.verdicts.family_kinds import families
from tests.verdicts.place import (
    JOIN,
    Place,
    copy,
    flipped,
    garbled,
    of_the_future,
    remove,
    side,
    sparks,
    spoil,
    swap,
)
from tests.verdicts.query import BATCHES, Layout, Shape


def _only_state(place: Place) -> None:
    for one in place.checkpoint.iterdir():
        if one.name != "state":
            remove(one)


def _only_schemas(place: Place) -> None:
    for one in place.checkpoint.joinpath("state").rglob("*"):
        if one.is_file() and "schema" not in one.name:
            one.unlink()


def _emptied(place: Place) -> None:
    for one in place.checkpoint.iterdir():
        remove(one)


def _copied_log(log: str, batch: int, name: str) -> Damage:
    def damage(place: Place) -> None:
        folder = place.checkpoint / log
        shutil.copyfile(folder / str(batch), folder / name)

    return damage


# -- the kinds


def _metadata() -> Iterator[Kind]:
    group, path = "`metadata`", in_checkpoint("metadata")
    yield Kind(group, "missing", lost(path))
    yield Kind(group, "empty", spoilt(path, empty))
    yield Kind(group, "garbled", spoilt(path, garbled))
    yield Kind(group, "a directory", directory(path))
    yield Kind(group, "with another id", spoilt(path, _another_query))
    yield Kind(group, "missing", lost(path), History.MAINTAINED)


def _another_query(_: bytes) -> bytes:
    return f'{{"id":"{UUID}"}}'.encode()


def _commits() -> Iterator[Kind]:
    group = "`commits/`"
    newest = in_checkpoint("commits", str(LAST))
    for name, how in (("missing", gone), ("empty", empty), ("garbled", garbled), ("cut", cut)):
        yield Kind(group, f"newest {name}", spoilt(newest, how))
    yield Kind(group, "newest of a future format", spoilt(newest, of_the_future))
    yield Kind(group, "newest missing", spoilt(newest, gone), History.TRIMMED)
    yield Kind(group, "the one before missing", lost(in_checkpoint("commits", str(LAST - 1))))
    yield Kind(
        group,
        "newest two missing",
        both(*(lost(in_checkpoint("commits", str(LAST - n))) for n in (0, 1))),
    )
    yield Kind(group, "an older one missing", lost(in_checkpoint("commits", str(LAST - 4))))
    yield Kind(
        group, "an older one garbled", spoilt(in_checkpoint("commits", str(LAST - 4)), garbled)
    )
    yield Kind(group, "folder missing", removed("commits"))
    yield Kind(group, "folder empty", directory(in_checkpoint("commits")))
    yield Kind(group, "a file instead of the folder", file_instead("commits"))
    yield Kind(group, "an entry above the newest", _copied_log("commits", LAST, str(LAST + 1)))
    yield Kind(group, "an entry far above the newest", _copied_log("commits", LAST, str(LAST + 90)))
    yield Kind(group, "a stray `9.bak`", _copied_log("commits", LAST, f"{LAST}.bak"))
    yield Kind(group, "a stray `foo`", _copied_log("commits", LAST, "foo"))
    yield Kind(
        group,
        "newest names an attempt that nobody made",
        spoilt(newest, another_id),
        layouts=(Layout.ROCKS_V2,),
    )


def _offsets() -> Iterator[Kind]:
    group = "`offsets/`"
    newest = in_checkpoint("offsets", str(LAST))
    for name, how in (("missing", gone), ("empty", empty), ("garbled", garbled), ("cut", cut)):
        yield Kind(group, f"newest {name}", spoilt(newest, how))
    yield Kind(group, "the one before missing", lost(in_checkpoint("offsets", str(LAST - 1))))
    yield Kind(
        group, "the one before garbled", spoilt(in_checkpoint("offsets", str(LAST - 1)), garbled)
    )
    yield Kind(group, "an older one missing", lost(in_checkpoint("offsets", str(LAST - 4))))
    yield Kind(
        group, "an older one garbled", spoilt(in_checkpoint("offsets", str(LAST - 4)), garbled)
    )
    yield Kind(group, "folder missing", removed("offsets"))
    yield Kind(group, "an entry above the newest", _copied_log("offsets", LAST, str(LAST + 1)))
    yield Kind(group, "an entry far above the newest", _copied_log("offsets", LAST, str(LAST + 90)))


def _sources() -> Iterator[Kind]:
    group = "`sources/`"
    yield Kind(group, "folder missing", removed("sources"))
    yield Kind(group, "log of one source of two missing", removed("sources", "0"), shape=Shape.JOIN)
    compact = f"{LAST}.compact"
    yield Kind(group, "newest entry missing", removed("sources", "0", compact))
    yield Kind(
        group, "newest entry garbled", spoilt(in_checkpoint("sources", "0", compact), garbled)
    )
    yield Kind(group, "an older entry missing", removed("sources", "0", str(LAST - 4)))


def _folders() -> Iterator[Kind]:
    group = "whole trees"
    yield Kind(
        group, "`commits/` and `offsets/` missing", both(removed("commits"), removed("offsets"))
    )
    yield Kind(group, "all but `state/` missing", _only_state)
    yield Kind(
        group,
        "all but `metadata` missing",
        both(*(removed(n) for n in ("commits", "offsets", "sources", "state"))),
    )
    yield Kind(group, "everything missing", _emptied)
    yield Kind(group, "`state/` missing", removed("state"))
    yield Kind(group, "only the schemas of `state/` left", _only_schemas)
    yield Kind(group, "only the schemas of `state/` left, a join", _only_schemas, shape=Shape.JOIN)
    yield Kind(group, "a file instead of `state/`", file_instead("state"))
    yield Kind(group, "partition 0 missing", removed("state", "0", "0"))
    yield Kind(group, "partition 1 missing", removed("state", "0", "1"))
    yield Kind(group, "partition 1 of a join missing", removed("state", "1", "1"), shape=Shape.JOIN)
    yield Kind(group, "partition 1 empty", directory(in_checkpoint("state", "0", "1")))
    yield Kind(group, "operator 0 missing", removed("state", "0"))
    untold = "operators that left no trace"
    yield Kind(group, "operator 1 missing", removed("state", "1"), unseen=untold)
    yield Kind(group, "operator 1 missing", removed("state", "1"), History.MAINTAINED)
    one = removed("state", "1", "0", JOIN)
    yield Kind(group, "one store of a join missing", one, shape=Shape.JOIN)
    yield Kind(
        group,
        "one store of a join missing in all partitions",
        both(*(removed("state", "1", str(n), JOIN) for n in (0, 1))),
        shape=Shape.JOIN,
    )
    yield Kind(group, "a copy of partition 0 as partition 7", _copied_partition(7, whole=True))
    yield Kind(group, "a broken partition 7", _copied_partition(7, whole=False))
    yield Kind(group, "a copy of operator 0 as operator 2", _copied_operator(2, whole=True))
    yield Kind(group, "a broken operator 2", _copied_operator(2, whole=False))
    yield Kind(group, "an operator 2 that the query had until batch 3", _operator_of_the_past)
    yield Kind(group, "an operator 2 with metadata of its own", _foreign_operator, unseen=untold)
    yield Kind(group, "the very first batch never committed", _at_the_beginning)
    yield Kind(group, "partition 0 copied over partition 1", _partition_over)
    yield Kind(group, "partitions 0 and 1 exchanged", _partitions_exchanged)


def _copied_partition(number: int, *, whole: bool) -> Damage:
    def damage(place: Place) -> None:
        shutil.copytree(place.store(), place.store(number))
        if not whole:
            remove(place.change(TOP - 1, number))

    return damage


def _copied_operator(number: int, *, whole: bool) -> Damage:
    def damage(place: Place) -> None:
        other = place.checkpoint / "state" / str(number)
        shutil.copytree(place.checkpoint / "state" / "0", other)
        if not whole:
            remove(other / "0" / place.change(TOP - 1).name)

    return damage


def _operator_of_the_past(place: Place) -> None:
    """Puts an operator there that left the query before Spark 4, when none had metadata."""
    for batch in range(4):
        spoil(place.checkpoint / "offsets" / str(batch), _planned_before_spark_4)
    _copied_operator(2, whole=True)(place)
    other = place.checkpoint / "state" / "2"
    remove(other / "_metadata")
    for path in list(other.glob("[01]/*")):
        version = path.name.lstrip(".").partition(".")[0].partition("_")[0]
        if version.isdigit() and int(version) > 4:
            path.unlink()


def _planned_before_spark_4(offsets: bytes) -> bytes:
    setting = b'"spark.sql.streaming.stateStore.encodingFormat":"unsaferow",'
    assert setting in offsets
    return offsets.replace(setting, b"")


def _foreign_operator(place: Place) -> None:
    _copied_operator(2, whole=True)(place)
    metadata = place.checkpoint / "state" / "2" / "_metadata" / "metadata"
    spoil(metadata, lambda content: content.replace(b'"operatorId":0', b'"operatorId":2'))


def _at_the_beginning(place: Place) -> None:
    """Takes the query back to its first batch, and leaves the changes of state."""
    removed("commits")(place)
    for batch in range(1, BATCHES):
        remove(place.checkpoint / "offsets" / str(batch))
    for number in range(4):
        for version in (4, BASE):
            remove(place.snapshot(version, number % 2, number // 2))


def _partition_over(place: Place) -> None:
    for one in list(place.store(1).iterdir()):
        remove(one)
    shutil.copytree(
        place.store(0), place.store(1), ignore=shutil.ignore_patterns("_metadata"),
        dirs_exist_ok=True,
    )  # fmt: skip


def _partitions_exchanged(place: Place) -> None:
    between = place.store(0).with_name("between")
    place.store(0).rename(between)
    place.store(1).rename(place.store(0))
    between.rename(place.store(1))
    (place.store(1) / "_metadata").rename(place.store(0) / "_metadata")


def _changes() -> Iterator[Kind]:
    group = "deltas and changelogs"
    ways = (("missing", gone), ("cut", cut), ("empty", empty), ("flipped", flipped))
    for name, how in ways:
        yield Kind(group, f"newest {name}", spoilt(change(TOP), how))
    for name, how in (ways[0], ways[1], ways[3]):
        yield Kind(
            group, f"the one above the newest snapshot {name}", spoilt(change(BASE + 1), how)
        )
    for name, how in (ways[0], ways[3]):
        yield Kind(group, f"one between snapshots {name}", spoilt(change(BASE - 2), how))
        yield Kind(group, f"oldest {name}", spoilt(change(1), how))
        middle = spoilt(change(5, 1), how)
        yield Kind(group, f"one of a join in the middle {name}", middle, shape=Shape.JOIN)
    oldest = spoilt(change(1, 1), cut)
    yield Kind(group, "oldest of a join cut", oldest, shape=Shape.JOIN)
    yield Kind(group, "newest flipped, checksums left", _flipped_under(change(TOP)))
    yield Kind(group, "newest of another partition", _of_another_partition)
    yield Kind(group, "newest of another partition, checksums left", _of_another_under_ours)
    yield Kind(group, "newest exchanged with the one before", _exchanged)
    yield Kind(group, "newest a directory", directory(change(TOP)))
    yield Kind(group, "newest missing", spoilt(change(TOP), gone), History.MAINTAINED)
    yield Kind(group, "newest flipped", spoilt(change(TOP), flipped), History.MAINTAINED)


def _flipped_under(at: Callable[[Place], Path]) -> Damage:
    def damage(place: Place) -> None:
        path = at(place)
        path.write_bytes(flipped(path.read_bytes()))

    return damage


def _of_another_partition(place: Place) -> None:
    copy(place.change(TOP, 1), place.change(TOP))


def _of_another_under_ours(place: Place) -> None:
    place.change(TOP).write_bytes(place.change(TOP, 1).read_bytes())


def _exchanged(place: Place) -> None:
    swap(place.change(TOP), place.change(TOP - 1))


def _snapshots() -> Iterator[Kind]:
    group = "snapshots and zips"
    ways = (("missing", gone), ("cut", cut), ("empty", empty), ("flipped", flipped))
    for history in (History.WHOLE, History.TRIMMED):
        for name, how in ways:
            yield Kind(group, f"newest {name}", spoilt(snapshot(BASE), how), history)
    for name, how in (ways[0], ways[1], ways[3]):
        yield Kind(group, f"older {name}", spoilt(snapshot(4), how))
    for name, how in (ways[0], ways[3]):
        for what, version in (("newest", BASE), ("oldest", 6)):
            yield Kind(
                group,
                f"{what} of ours {name}",
                spoilt(snapshot(version, 1), how),
                History.MAINTAINED,
                shape=Shape.JOIN,
            )
    yield Kind(group, "newest flipped, checksums left", _flipped_under(snapshot(BASE)))
    yield Kind(
        group, "newest flipped, checksums left", _flipped_under(snapshot(BASE)), History.TRIMMED
    )
    yield Kind(group, "all missing", both(lost(snapshot(4)), lost(snapshot(BASE))))
    yield Kind(group, "newest of another partition", _snapshot_of_another_partition)
    yield Kind(group, "newest a directory", directory(snapshot(BASE)))
    yield Kind(group, "older a directory", directory(snapshot(4)))
    yield Kind(group, "an old one above the log", _above(TOP + 1), layouts=WITHOUT_IDS)
    yield Kind(
        group,
        "an old one three batches above the log",
        _above(TOP + 3),
        layouts=WITHOUT_IDS,
        hours=4,
    )
    yield Kind(group, "a change above the log", _change_above)


def _snapshot_of_another_partition(place: Place) -> None:
    mine, other = place.snapshot(BASE), place.snapshot(BASE, 1)
    copy(other, mine)
    for table in (place.store(1) / "SSTs").glob("*.sst"):
        copy(table, place.store() / "SSTs" / table.name)


def _above(version: int) -> Damage:
    def damage(place: Place) -> None:
        copy(place.snapshot(4), place.store() / place.name(version, "snapshot"))

    return damage


def _change_above(place: Place) -> None:
    newest = place.change(TOP)
    copy(newest, newest.with_name(newest.name.replace(f"{TOP}", f"{TOP + 1}", 1)))


def _table(place: Place) -> Path:
    return place.table(BASE)


def _tables() -> Iterator[Kind]:
    group = "SST files"
    for name, how in (("missing", gone), ("cut", cut), ("flipped", flipped)):
        yield Kind(group, f"of the newest zip {name}", spoilt(_table, how), layouts=ROCKS)
    yield Kind(group, "of the newest zip missing", lost(_table), History.TRIMMED, ROCKS)
    yield Kind(group, "folder missing", removed("state", "0", "0", "SSTs"), layouts=ROCKS)
    yield Kind(group, "one that nothing refers to", stray(f"SSTs/000099-{UUID}.sst"), layouts=ROCKS)


def _strays() -> Iterator[Kind]:
    group = "stray names in a store"
    for name in ("foo.snapshot", "foo.delta", "foo.zip", "foo.changelog", "foo.bar", "5.delta.bak"):
        yield Kind(group, f"`{name}`", stray(name))
    yield Kind(group, f"`.{TOP}.delta.<uuid>.tmp`", stray(f".{TOP}.delta.{UUID}.tmp"))
    yield Kind(group, "`foo`", stray("foo"))
    for name in (f"5_{UUID}.zip", "5_foo.zip"):
        yield Kind(group, f"`{name.replace(UUID, '<uuid>')}`", stray(name), layouts=ROCKS)
    for version, what in ((TOP + 1, "delta"), (TOP + 2, "snapshot")):
        taken = directory(_named(version, what))
        yield Kind(group, f"a directory named as the next {what}", taken)
    full = directory(_named(TOP + 1, "delta"), with_file=True)
    yield Kind(group, "a directory with a file, named as the next delta", full)


def _named(version: int, kind: str) -> Callable[[Place], Path]:
    return lambda place: place.store() / place.name(version, kind)


def _checksums() -> Iterator[Kind]:
    group = "checksum files"
    for what, at in (("newest change", change(TOP)), ("newest snapshot", snapshot(BASE))):
        hadoops, of_spark = f"Hadoop's, of the {what},", f"Spark's, of the {what},"
        yield Kind(group, f"{hadoops} wrong", _wrong_side(at))
        yield Kind(group, f"{hadoops} missing", _lost_side(at))
        yield Kind(group, f"{hadoops} garbled", _garbled_side(at))
        only = (Layout.ROCKS_V2,)
        yield Kind(group, f"{of_spark} wrong", _wrong_sparks(at), layouts=only)
        yield Kind(group, f"{of_spark} missing", _lost_sparks(at), layouts=only)
        yield Kind(group, f"{of_spark} garbled", _garbled_sparks(at), layouts=only)
    yield Kind(group, "of a file that is missing", _orphan)
    of_commit = _wrong_side(in_checkpoint("commits", str(LAST)))
    yield Kind(group, "Hadoop's, of the newest commit, wrong", of_commit)


def _lost_side(at: Callable[[Place], Path]) -> Damage:
    return lambda place: side(at(place)).unlink()


def _garbled_side(at: Callable[[Place], Path]) -> Damage:
    return lambda place: side(at(place)).write_bytes(b"nothing of the kind")


def _lost_sparks(at: Callable[[Place], Path]) -> Damage:
    return lambda place: remove(sparks(at(place)))


def _garbled_sparks(at: Callable[[Place], Path]) -> Damage:
    return lambda place: _write(sparks(at(place)), b"nothing of the kind")


def _wrong_side(at: Callable[[Place], Path]) -> Damage:
    return lambda place: side(at(place)).write_bytes(hadoop(b"another file"))


def _wrong_sparks(at: Callable[[Place], Path]) -> Damage:
    def damage(place: Place) -> None:
        _write(sparks(at(place)), sparks(place.change(1)).read_bytes())

    return damage


def _write(path: Path, content: bytes) -> None:
    side(path).unlink(missing_ok=True)
    path.write_bytes(content)


def _orphan(place: Place) -> None:
    """The oldest change goes and leaves its checksums."""
    place.store().joinpath(f".{place.name(3, 'delta')}.old.crc").unlink(missing_ok=True)
    lone = place.store() / f".{99}.{place.change(1).suffix[1:]}.crc"
    lone.write_bytes(hadoop(b"another file"))


def _schemas() -> Iterator[Kind]:
    group = "schema and operator metadata"
    schema = in_checkpoint("state", "0", "0", "_metadata", "schema")
    operator = in_checkpoint("state", "0", "_metadata", "metadata")
    for what, at in (("schema", schema), ("operator metadata", operator)):
        for name, how in (("missing", gone), ("empty", empty), ("garbled", garbled), ("cut", cut)):
            yield Kind(group, f"{what} {name}", spoilt(at, how))
    yield Kind(group, "both missing", both(lost(schema), lost(operator)))
    missing = removed("state", "1", "0", JOIN, "_metadata")
    yield Kind(group, "schema of a join missing", missing, shape=Shape.JOIN)


def _intact() -> Iterator[Kind]:
    for history in History:
        yield Kind("no damage", "as it was", lambda _: None, history)
    yield Kind("no damage", "a join as it was", lambda _: None, shape=Shape.JOIN)


KINDS = (
    *_intact(),
    *_metadata(),
    *_commits(),
    *_offsets(),
    *_sources(),
    *_folders(),
    *_changes(),
    *_snapshots(),
    *_tables(),
    *_strays(),
    *_checksums(),
    *_schemas(),
    *families(),
)
