"""The digest: blind to order, to nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.integrity.digest import StateDigest, digest, digest_key

KEY = digest_key("11111111-2222-3333-4444-555555555555")
STATES = st.dictionaries(st.binary(max_size=8), st.binary(max_size=8), max_size=8)


@given(STATES, st.randoms(use_true_random=False))
def test_order_does_not_matter(state: dict[bytes, bytes], random: object) -> None:
    rows = list(state.items())
    random.shuffle(rows)  # type: ignore[attr-defined]
    assert digest(rows, KEY) == digest(state.items(), KEY)


@given(STATES, st.integers(0, 8))
def test_digests_of_two_parts_add_up_to_that_of_the_whole(
    state: dict[bytes, bytes], at: int
) -> None:
    rows = list(state.items())
    assert digest(rows[:at], KEY) + digest(rows[at:], KEY) == digest(rows, KEY)


@given(STATES, STATES)
def test_other_rows_give_another_digest(one: dict[bytes, bytes], two: dict[bytes, bytes]) -> None:
    assert (digest(one.items(), KEY).digest == digest(two.items(), KEY).digest) == (one == two)


def test_a_byte_that_moves_from_key_to_value_changes_it() -> None:
    assert digest([(b"ab", b"c")], KEY).digest != digest([(b"a", b"bc")], KEY).digest


def test_a_digest_is_stable_across_releases() -> None:
    # Attestations are kept on disk: another value here would make every one of them void.
    assert digest_key("11111111-2222-3333-4444-555555555555") == KEY
    assert KEY.hex() == "a9c89cd2996062d110ce01da970597b5"
    assert (
        digest([(b"key", b"value"), (b"", b"")], KEY).digest == "5080cd71ebf75d2815d63294f4e60fa5"
    )
    assert digest([], KEY).digest == "0" * 32


def test_a_digest_counts_rows_and_bytes() -> None:
    found = digest([(b"key", b"value"), (b"k", b"")], KEY)
    assert (found.rows, found.bytes) == (2, 9)


def test_the_sums_of_compiled_loops_are_a_digest() -> None:
    found = StateDigest.of_words([7, 2, 3, 40])
    assert found == StateDigest(3, 40, f"{2:016x}{7:016x}")
