"""What a request of one run includes."""

from itertools import product

import pytest

from statemaint.model.ids import StoreId
from statemaint.plan.actions import Request

STORES = [StoreId(*one) for one in product((0, 1), (0, 3), ("default", "left"))]


@pytest.mark.parametrize(
    ("request_", "covered"),
    [
        (Request(), set(STORES)),
        (Request(operators=frozenset({1})), {one for one in STORES if one.operator == 1}),
        (Request(partitions=frozenset({3})), {one for one in STORES if one.partition == 3}),
        (Request(stores=frozenset({"left"})), {one for one in STORES if one.store == "left"}),
        (
            Request(None, False, frozenset({0}), frozenset({3}), frozenset({"left"})),
            {StoreId(0, 3, "left")},
        ),
        (Request(operators=frozenset({7})), set()),
    ],
    ids=["all", "operator", "partition", "store", "one", "none"],
)
def test_a_request_covers_what_all_its_parts_name(request_: Request, covered: set[StoreId]) -> None:
    assert {one for one in STORES if request_.covers(one)} == covered
