"""One HDFS, and a Java that reaches it, for all tests of this folder."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from statemaint.storage.hadoop_jvm import Jvm, launch_jvm
from tests.support.hdfs import SUPERUSER, Hdfs, HdfsError, hdfs

FS = "org.apache.hadoop.fs."
_numbers = count()


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
