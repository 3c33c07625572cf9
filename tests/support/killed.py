"""Maintains the checkpoint of argv[1] and dies at point argv[2]; exits 0 when it got through."""

import sys

from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from tests.support.faults import KilledStorage

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)
HOLDER = Holder("killed", nonce="of every process")

if __name__ == "__main__":
    maintain(KilledStorage(sys.argv[1], at=int(sys.argv[2])), TIGHT, run="killed", holder=HOLDER)
