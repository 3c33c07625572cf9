"""Servers of S3, each started once: moto, and a real Ceph where it is installed."""

from collections.abc import Iterator

import pytest

from tests.support.ceph import CephUnavailableError, ceph
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.s3 import Place, moto


@pytest.fixture(scope="session")
def moto_place() -> Iterator[Place]:
    with moto() as place:
        yield place


@pytest.fixture(scope="session")
def ceph_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    try:
        running = ceph(tmp_path_factory.mktemp("ceph"))
        found = running.__enter__()
    except CephUnavailableError as error:
        pytest.skip(str(error))
    try:
        yield Place(found.url, found.access_key, found.secret_key)
    finally:
        running.__exit__(None, None, None)


@pytest.fixture(params=["moto", "ceph"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each of the servers in turn."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture
def proxy(moto_place: Place) -> Iterator[FaultProxy]:
    """A proxy in front of moto that breaks what it is told to."""
    with fault_proxy(moto_place.url) as found:
        yield found


@pytest.fixture
def broken(proxy: FaultProxy) -> Place:
    """The server behind that proxy."""
    return Place(proxy.url)
