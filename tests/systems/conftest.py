"""The servers that storages are tested on, each started once and only where a test asks for it.

Of S3 moto, and a real Ceph where it is installed; of Hadoop a real HDFS, and a Java for it.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from statemaint.storage.hadoop.jvm import Jvm, launch_jvm
from tests.support.ceph import Ceph, CephUnavailableError, ceph
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.hdfs import SUPERUSER, Hdfs, HdfsError, hdfs
from tests.support.s3 import Moto, Place, moto

FS = "org.apache.hadoop.fs."
_numbers = count()


# -- S3


@pytest.fixture(scope="session")
def moto_place() -> Iterator[Moto]:
    with moto() as place:
        yield place


@pytest.fixture(scope="session")
def running_ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    try:
        running = ceph(tmp_path_factory.mktemp("ceph"))
        found = running.__enter__()
    except CephUnavailableError as error:
        pytest.skip(str(error))
    try:
        yield found
    finally:
        running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def ceph_place(running_ceph: Ceph) -> Place:
    return Place(running_ceph.url, running_ceph.access_key, running_ceph.secret_key)


@pytest.fixture(scope="session")
def other_place(running_ceph: Ceph) -> Place:
    """The same server in the hands of another account, whose id is `other`."""
    found = running_ceph.user("other")
    return Place(found.url, found.access_key, found.secret_key)


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


# -- Hadoop


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A running HDFS."""
    try:
        with hdfs(tmp_path_factory.mktemp("hdfs")) as running:
            yield running
    except HdfsError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def jvm(cluster: Hdfs) -> Iterator[Jvm]:
    """A Java that acts as the cluster's ordinary user."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environ.items():
            patch.setenv(name, value)
        java = launch_jvm()
    yield java
    java.end()


@pytest.fixture(scope="session")
def local_jvm() -> Iterator[Jvm]:
    """A Java that has no configuration."""
    java = launch_jvm()
    yield java
    java.end()


@pytest.fixture(scope="session")
def admin(cluster: Hdfs, jvm: Jvm) -> Any:
    """The cluster's file system in the hands of its superuser."""
    address = jvm.java("java.net.URI")(cluster.uri)
    return jvm.java(FS + "FileSystem").newInstance(address, jvm.configuration(), SUPERUSER)


@pytest.fixture
def folder(cluster: Hdfs, jvm: Jvm, admin: Any) -> str:
    """The address of an empty directory that everybody may write to."""
    uri = f"{cluster.uri}/tests/{next(_numbers)}"
    path = jvm.java(FS + "Path")(uri)
    admin.mkdirs(path)
    admin.setPermission(path, jvm.java(FS + "permission.FsPermission")("777"))
    return uri
