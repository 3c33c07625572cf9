"""Refusals of a server of S3: each is named by its cause, and what was done all the same is seen."""

import hashlib
from collections.abc import Callable

import pytest

from statemaint.errors import AlreadyExistsError, StorageError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from tests.support.fault_proxy import Answer, FaultProxy, Lost, Seen, Then, error
from tests.support.s3 import Place

MIB = 1024 * 1024
CONTENT = bytes(range(256)) * (12 * MIB // 256)
MANY = 1000
DENIED = Answer(403, error("AccessDenied"))


def has(part: str) -> Callable[[Seen], bool]:
    return lambda seen: part in seen.target


# -- credentials


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidToken"])
def test_expired_credentials_are_named_by_the_first_request_of_a_run(
    broken: Place, proxy: FaultProxy, code: str
) -> None:
    storage = broken.storage()
    # As AWS answers them: a HEAD with 400 and no body, a GET with the reason.
    proxy.fail("HEAD", Answer(400), times=MANY)
    proxy.fail("GET", Answer(400, error(code, "The provided token has expired.")), times=MANY)
    with pytest.raises(StorageError) as caught:
        maintain(storage, Policy())
    assert str(caught.value).endswith(f": the credentials were refused ({code})")
    assert caught.value.exit_code == 5


def test_a_head_that_is_refused_for_another_reason_stays_an_error_of_its_own(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage()
    proxy.fail("HEAD", Answer(400), times=MANY)
    with pytest.raises(StorageError, match=r"^a: HeadObject failed: 400: Bad Request$"):
        storage.stat("a")
