"""RocksDB's options, as text of its own options file.

`rocksdict` has no method for a merge operator, but RocksDB makes one from the text of an options
file, of the same class that Spark uses. So every database is opened with a file that we write. The
options of a store are read from the options file in each zip: only that file has the delimiter
between the operands of a merge (`mergeOperatorVersion` 1: a comma, 2: nothing). One thread opens
the files of a database: they are local, and sixteen, RocksDB's default, take longer to start.

Mirrors the options in zips of Spark 4.0.5 and 4.3.0: LZ4, blocks of 4 KiB, a Bloom filter of 10
bits, table format 5, which every rocksdbjni since 8.3.2 (Spark 3.5) reads. Zips of Spark 3.5.9
have Snappy. One store may have SST files of both kinds: each block of one names its compression.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from statemaint.errors import CodecError
from statemaint.fold.rocksdb.binding import Options

_OPTIONS, _NUMBER = "OPTIONS-", "000001"
_OPERATOR = re.compile(r"^\s*merge_operator\s*=\s*(.*?)\s*$", re.MULTILINE)
_APPEND = re.compile(r"\{(?:id=)?StringAppendOperator;\s*delimiter=([^;{}\\#]?);?\s*\}")
_TEXT = """[Version]
  rocksdb_version=9.8.4
  options_file_version=1.1
[DBOptions]
  create_if_missing={create}
  max_open_files=512
  max_file_opening_threads=1
  max_background_jobs=2
  stats_dump_period_sec=0
  stats_persist_period_sec=0
  skip_stats_update_on_db_open=true
  keep_log_file_num=1
[CFOptions "default"]
  merge_operator={operator}
  compression=kLZ4Compression
  disable_auto_compactions=true
[TableOptions/BlockBasedTable "default"]
  format_version=5
  block_size=4096
  filter_policy=bloomfilter:10:false
"""


def delimiter_of(members: Mapping[str, bytes]) -> bytes | None:
    """Returns the bytes between merged operands in a zip's database; `None` without an operator."""
    numbers = (int(name[len(_OPTIONS) :]) for name in members if name.startswith(_OPTIONS))
    newest = max(numbers, default=0)
    content = members.get(f"{_OPTIONS}{newest:06}", b"")
    match = _OPERATOR.search(content.decode(errors="replace"))
    if match is None:
        raise CodecError("no merge operator is named in the options of the zip", offset=0)
    text = match[1]
    if text == "nullptr":
        return None
    if text == "StringAppendOperator":  # how RocksDB writes an empty delimiter
        return b""
    if delimited := _APPEND.fullmatch(text):
        return delimited[1].encode()
    raise CodecError(f"merge operator {text[:80]!r} is not one of Spark's", offset=0)


def load(place: Path, delimiter: bytes | None, *, create: bool) -> tuple[Options, Options]:
    """Returns the options of a database and those of its only column family.

    Args:
        place: an empty or absent directory, for the options file.
        delimiter: the bytes between merged operands.
        create: whether the database may be new.
    """
    place.mkdir(parents=True, exist_ok=True)
    text = _TEXT.format(create=str(create).lower(), operator=_operator(delimiter))
    (place / f"{_OPTIONS}{_NUMBER}").write_text(text)
    (place / "CURRENT").write_text(f"MANIFEST-{_NUMBER}\n")
    (place / "rocksdict-config.json").write_text('{"raw_mode":true,"prefix_extractors":{}}')
    options, families = Options.load_latest(str(place))
    return options, families["default"]


def _operator(delimiter: bytes | None) -> str:
    if delimiter is None:
        return "nullptr"
    return f"{{id=StringAppendOperator;delimiter={delimiter.decode()};}}"
