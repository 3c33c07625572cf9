"""What Spark writes of operators with column families: metadata v2, which lead to schemas v3."""

import json
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from uuid import uuid4

# The rows of the certificate are no rows of Spark's: a type that cannot be read says so.
_FIELDS = {"type": "struct", "fields": [{"name": "row", "type": "geometry", "nullable": True}]}
_SPEC = {"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}
_NO_USER_KEY = "{    }"


def families_described(
    stores: Iterable[str], batch: int, names: Iterable[str]
) -> Mapping[str, bytes]:
    """Returns the files that the first batch with some state variables writes, by path."""
    schema, files = _schema(tuple(names)), dict[str, bytes]()
    for operator, partitions in Counter(one.split("/")[1] for one in stores).items():
        path = f"state/{operator}/_stateSchema/default/{batch}_{uuid4()}"
        files[path] = schema
        files[f"state/{operator}/_metadata/v2/{batch}"] = _metadata(operator, partitions, path)
    return files


def _metadata(operator: str, partitions: int, schema: str) -> bytes:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}
    fields = {
        "operatorInfo": {"operatorId": int(operator), "operatorName": "transformWithStateExec"},
        "stateStoreInfo": [{**store, "stateSchemaFilePaths": [f"certificate:/{schema}"]}],
        "operatorPropertiesJson": "{}",
    }
    return b"v2\n" + json.dumps(fields, separators=(",", ":")).encode()


def _schema(names: tuple[str, ...]) -> bytes:
    return _utf("v3") + struct.pack(">i", len(names)) + b"".join(map(_family, names))


def _family(name: str) -> bytes:
    row = struct.pack(">h", 0) + _chunked(json.dumps(_FIELDS))
    return _utf(name) + row + row + _chunked(json.dumps(_SPEC)) + _chunked(_NO_USER_KEY)


def _chunked(text: str) -> bytes:
    return struct.pack(">i", 1) + _utf(text)


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
