"""The layout of rows in a store: the bytes that each provider puts around keys and values.

HDFS-backed:

    key     = row
    value   = [checksum(<I)] row                with row checksums, in front

RocksDB:

    key     = [family(<h)] encoded              the family's number, where the store has families
    encoded = 0 row                             NoPrefixKeyStateEncoderSpec
            | size(<i) 0 row 0 row              PrefixKeyScanStateEncoderSpec: the first columns,
                                                whose bytes `size` counts, and the others
            | size(<i) 0 ordered [0 row]        RangeKeyScanStateEncoderSpec: the columns that it
                                                names, and the others where there are any
            | moment(>q) 0 row                  TimestampAsPrefixKeyStateEncoderSpec: the last
            | 0 row moment(>q)                  TimestampAsPostfixKeyStateEncoderSpec: column apart
    ordered = row of binary columns             each: sign, and the number (big-endian)
    sign    = 0 negative | 1 | 2 null           of a negative float or double all bits are flipped
    moment  = the number with its highest bit flipped, so that bytes sort as numbers do
    value   = 0 row
            | entry (delimiter entry)*          lists, and rows of a join in format 4
    entry   = size(<i) 0 row

The leading 0 is the version of the encoding. With row checksums every value consists of entries
with a checksum(<I) before the size (`codec.integrity.row_checksum`). Mirrors
`RocksDBStateEncoder.scala`.
"""

import json
from dataclasses import dataclass

from statemaint.codec.rows.types import StructType
from statemaint.errors import CodecError


@dataclass(frozen=True, slots=True)
class Bare:
    """The row without anything around it: HDFS-backed stores."""


@dataclass(frozen=True, slots=True)
class NoPrefix:
    """`NoPrefixKeyStateEncoderSpec`."""


@dataclass(frozen=True, slots=True)
class PrefixScan:
    """`PrefixKeyScanStateEncoderSpec`: the first columns are encoded separately, in front."""

    columns: int


@dataclass(frozen=True, slots=True)
class RangeScan:
    """`RangeKeyScanStateEncoderSpec`: the columns of these ordinals come separately, in front."""

    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TimestampFirst:
    """`TimestampAsPrefixKeyStateEncoderSpec`."""


@dataclass(frozen=True, slots=True)
class TimestampLast:
    """`TimestampAsPostfixKeyStateEncoderSpec`."""


KeyEncoder = Bare | NoPrefix | PrefixScan | RangeScan | TimestampFirst | TimestampLast


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The layout of the rows of a store, or of one of its column families.

    Attributes:
        key: the columns of keys.
        value: the columns of values, or of each entry in them.
        encoder: the encoding of keys.
        many: whether a value has any number of entries.
    """

    key: StructType
    value: StructType
    encoder: KeyEncoder
    many: bool = False


@dataclass(frozen=True, slots=True)
class Wrapping:
    """The bytes around all keys and values of a store.

    Attributes:
        families: the size of the column family's number before a key: 2, or 0 without families.
        checksums: whether every row carries a checksum.
        delimiter: the bytes between entries.
    """

    families: int = 0
    checksums: bool = False
    delimiter: bytes = b""


def parse_encoder(text: str) -> KeyEncoder:
    """Returns the key encoder in a schema file, from the JSON of a `KeyStateEncoderSpec`."""
    try:
        fields = json.loads(text)
        match fields["keyStateEncoderType"]:
            case "NoPrefixKeyStateEncoderSpec":
                return NoPrefix()
            case "PrefixKeyScanStateEncoderSpec":
                return PrefixScan(int(fields["numColsPrefixKey"]))
            case "RangeKeyScanStateEncoderSpec":
                return RangeScan(tuple(int(one) for one in fields["orderingOrdinals"]))
            case "TimestampAsPrefixKeyStateEncoderSpec":
                return TimestampFirst()
            case "TimestampAsPostfixKeyStateEncoderSpec":
                return TimestampLast()
            case _:
                pass
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise CodecError(f"not a key encoder: {text[:80]!r}", offset=0) from error
    raise CodecError(f"key encoder {text[:80]!r} is not one of Spark's", offset=0)
