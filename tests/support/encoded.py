"""Rows of any columns that can be keys, as `UnsafeRow`."""

from typing import Any

from hypothesis import strategies as st

from statemaint.codec.rows.unsafe_write import encode_row

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-128, 127),
    "short": st.integers(-(1 << 15), (1 << 15) - 1),
    "integer": st.integers(-(1 << 31), (1 << 31) - 1),
    "date": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "timestamp": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(),
    "binary": st.binary(max_size=20),
    "decimal(10,2)": st.decimals(-999, 999, places=2),
    "decimal(30,2)": st.decimals(-(10**20), 10**20, places=2),
    "void": st.none(),
}


def schema(names: list[str]) -> dict[str, Any]:
    fields = [
        {"name": f"c{number}", "type": name, "nullable": True, "metadata": {}}
        for number, name in enumerate(names)
    ]
    return {"type": "struct", "fields": fields}


@st.composite
def encoded_rows(draw: st.DrawFn) -> tuple[list[str], list[bytes]]:
    """Rows of one schema, by the names of its types."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=70))
    row = st.tuples(*(st.none() | VALUES[name] for name in names))
    found = draw(st.lists(row, min_size=1, max_size=5))
    return names, [encode_row(list(one), schema(names)) for one in found]
