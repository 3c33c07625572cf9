"""Two addresses of one checkpoint, however they are spelled."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.errors import ConfigError
from statemaint.storage import overlaps, place_of, storage_of
from tests.support.queries import valid_queries

SAME = [
    ("/data/x", "/data/x"),
    ("/data/x", "/data/x/"),
    ("/data/x", "/data//x"),
    ("/data/x", "//data/x"),
    ("/data/x", "/data/./x"),
    ("/data/x", "/data/y/../x"),
    ("/data/x", "/../data/x"),
    ("/data/x", "file:/data/x"),
    ("/data/x", "file:///data/x"),
    ("/data/x", "file:///data/x//"),
    ("/data/x", "FILE:///data/x"),
    ("/data/x", "file://localhost/data/x"),
    ("/data/x", "hadoop+file:///data/x"),
    ("/data/a b", "file:///data/a%20b"),
    ("s3://lake/x", "s3a://lake/x"),
    ("s3://lake/x", "s3n://lake/x/"),
    ("s3://lake/x", "s3://lake//x"),
    ("s3://lake/x", "s3://Lake/x"),
    ("s3://lake/x", "s3://lake/y/../x"),
    ("s3://lake/x", "hadoop+s3a://lake/x"),
    ("s3://lake", "s3a://lake/"),
    ("hdfs://nn/x", "hdfs://nn:8020/x"),
    ("hdfs://nn:9000/x", "hdfs://NN/x/"),
    ("hdfs://nn/x", "hdfs://spark@nn/x"),
    ("hdfs://nn:8020/x", "webhdfs://nn:9870/x"),
    ("hdfs://[fd00::1]:8020/x", "hdfs://[FD00::1]/x"),
    ("abfss://c@acc.dfs.core.windows.net/x", "abfs://c@ACC.dfs.core.windows.net/x/"),
    ("abfss://c@acc.dfs.core.windows.net/x", "wasbs://c@acc.blob.core.windows.net/x"),
    ("gs://lake/x", "gs://lake/./x"),
]

APART = [
    ("/data/x", "/data/y"),
    ("/data/x", "/data/x1"),
    ("/data/x", "/data/X"),
    ("/data/x", "s3://data/x"),
    ("/data/a%20b", "/data/a b"),  # a path is taken as it is
    ("/data/a#1", "/data/a#2"),
    ("file:/data/a#1", "file:/data/a#2"),
    ("file:///data/a", "file:///data/a?b"),
    ("s3://lake/x", "s3://lakes/x"),
    ("s3://lake/x", "s3://lake/X"),
    ("s3://lake/x", "gs://lake/x"),
    ("hdfs://nn:8020/x", "hdfs://nn:9000/x"),
    ("hdfs://nn1/x", "hdfs://nn2/x"),
    ("abfss://c@acc.dfs.core.windows.net/x", "abfss://d@acc.dfs.core.windows.net/x"),
    ("abfss://c@one.dfs.core.windows.net/x", "abfss://c@two.dfs.core.windows.net/x"),
]


def overlap(addresses: dict[str, str]) -> tuple[str, str] | None:
    return next(overlaps(addresses), None)


def refused(folder: Path, **checkpoints: str) -> str:
    """Returns what is said of a queries file with these queries, without the file's name."""
    file = folder / "queries.yaml"
    queries = "".join(f"  {name}: {{checkpoint: '{one}'}}\n" for name, one in checkpoints.items())
    file.write_text(f"queries:\n{queries}", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        valid_queries(file)
    first = str(caught.value).splitlines()[0]
    return re.sub(rf"^{re.escape(str(file))}:\d+: queries\.\w+\.checkpoint", "queries", first)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_queries_on_one_checkpoint_are_refused_however_it_is_spelled(
    tmp_path: Path, one: str, other: str
) -> None:
    said = refused(tmp_path, hourly=one, between="/elsewhere", daily=other)
    assert said.startswith("queries: hourly and daily have one checkpoint (")
    assert one in said
    assert other in said
    swapped = refused(tmp_path, daily=other, hourly=one)
    assert swapped.startswith("queries: daily and hourly have one checkpoint (")


@pytest.mark.parametrize(("one", "other"), APART)
def test_different_checkpoints_are_told_apart(one: str, other: str) -> None:
    assert overlap({"a": one, "b": other}) is None
    assert overlap({"b": other, "a": one}) is None


@pytest.mark.parametrize(("one", "other"), SAME)
def test_a_checkpoint_inside_another_one_is_refused(tmp_path: Path, one: str, other: str) -> None:
    for inside in (f"{other}/state/y", f"{other.rstrip('/')}/y"):
        said = refused(tmp_path, inner=inside, outer=one)
        assert said.startswith(f"queries: the checkpoint of inner, {inside}, lies inside that of ")
        assert f"of outer, {one}; give each" in said
        assert overlap({"outer": one, "inner": inside}) == ("outer", "inner")


def test_links_on_local_disk_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "x").symlink_to(tmp_path / "link" / "x")
    real = str(tmp_path / "real" / "x")
    for other in (f"{tmp_path}/link/x", f"file://{tmp_path}/x", f"{tmp_path}/x/../../link/x/"):
        assert refused(tmp_path, a=real, b=other).startswith("queries: a and b have one checkpoint")
    # What does not exist yet will lie behind the same link.
    assert overlap({"a": f"{tmp_path}/real/new", "b": f"{tmp_path}/link/new"}) == ("a", "b")
    # `..` behind a link is the parent of where it leads to.
    (tmp_path / "y").mkdir()
    assert overlap({"a": f"{tmp_path}/y", "b": f"{tmp_path}/x/../y"}) is None


def test_links_that_lead_in_circles_are_an_address_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert overlap({"one": f"{tmp_path}/a/x", "other": f"{tmp_path}/c/x"}) is None


def test_a_port_that_one_address_leaves_out_may_be_any() -> None:
    first, second, none = "hdfs://nn:8020/x", "hdfs://nn:9000/x", "hdfs://nn/x"
    assert overlap({"a": first, "b": second}) is None
    assert overlap({"a": first, "b": second, "c": none}) is not None
    assert overlap({"c": none, "b": second}) == ("c", "b")


def test_a_thousand_queries_are_compared_at_once() -> None:
    many = {f"q{number}": f"s3://lake/checkpoints/{number}" for number in range(1000)}
    assert overlap(many) is None
    assert overlap({**many, "again": "s3a://lake/checkpoints/500/"}) == ("q500", "again")


@given(st.text(max_size=30), st.sampled_from(["", "file:", "s3://", "hdfs://", "hadoop+", "x://"]))
def test_every_text_names_some_place(text: str, scheme: str) -> None:
    place = place_of(scheme + text)
    assert not {"", ".", ".."} & {*place.parts}
    assert place == place_of(scheme + text)


@pytest.mark.parametrize(
    ("address", "storage"),
    [
        ("s3a://lake/a/b", "s3://lake"),
        ("hadoop+hdfs://Node:8020/a", "hdfs://node"),
        ("abfss://c@account.dfs.core.windows.net/a", "azure://c@account.dfs.core.windows.net"),
        ("/data/a", "file:///"),
        ("file:///data/a", "file:///"),
    ],
)
def test_an_address_has_the_storage_that_fails_as_a_whole(address: str, storage: str) -> None:
    assert storage_of(address) == storage
