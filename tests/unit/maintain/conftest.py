"""A query that operators rewind (`tests.support.rewound`), once it was maintained."""

import pytest

from statemaint.maintain import maintain
from tests.support.rewound import TIGHT, RewoundQuery


@pytest.fixture(params=[True, False], ids=["tagged", "by time"])
def query(request: pytest.FixtureRequest) -> RewoundQuery:
    """20 batches, maintained: 20.snapshot is written and proved."""
    found = RewoundQuery(tagged=request.param)
    found.run(0, 19)
    assert maintain(found.storage, TIGHT).exit_code == 0
    assert "20.snapshot" in found.names
    return found
