"""A real NameNode and a real DataNode on this machine.

    with hdfs(folder) as cluster:
        cluster.uri          hdfs://127.0.0.1:<port>
        cluster.environ      what a client's Java needs to reach it, as the user it names

`viewfs://view/mounted` is its directory `/tests`. No server of `gs` or `wasb` installs here: their
schemes are fakes, `gs://bucket/lake` the same directory of this HDFS, whose `create` is atomic, and
`wasb://box/disk` the folder `disk` of the local disk, where Hadoop looks before it creates. The
servers' own user is the superuser of this HDFS; `environ` names an ordinary one.
"""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.hdfs_jars import MissingJarsError, jars
from tools.demo.processes import Process, end_of, free_port, spawn, stop, wait_until

SUPERUSER = "superuser"
USER = "maintainer"
# What the NameNode knows of users; the last is in no group of the others'.
GROUPS = {USER: "maintainers,team", "spark": "spark", "colleague": "team", "stranger": "strangers"}

_START_SECONDS = 60.0
_STOP_SECONDS = 5.0
_SERVERS = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
# Hadoop 2.7 is older than Java's modules.
_OPENS = ("java.lang", "java.lang.reflect", "java.util", "java.net", "java.nio", "java.security")
_JAVA = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS),
)
_LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %c: %m%n
"""


class HdfsError(Exception):
    """The servers cannot be started here; the sentence says why."""


@dataclass(frozen=True)
class Hdfs:
    """A running HDFS."""

    folder: Path
    port: int
    servers: dict[str, Process]
    command: Sequence[str]

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    @property
    def environ(self) -> Mapping[str, str]:
        return {"HADOOP_CONF_DIR": str(self.folder / "conf"), "HADOOP_USER_NAME": USER}

    def stop(self, server: str) -> None:
        """Ends the `namenode` or the `datanode`."""
        stop([self.servers[server]], seconds=0)

    def start(self, server: str) -> None:
        """Starts it; it takes its first requests some seconds later."""
        log = self.folder / f"{server}.log"
        self.servers[server] = spawn([*self.command, _SERVERS[server]], log=log, environ=_environ())


@contextmanager
def hdfs(folder: Path) -> Iterator[Hdfs]:
    """Runs an HDFS whose files live in a folder, until the block ends.

    Raises:
        HdfsError: when it cannot be started here.
    """
    port, web = free_port(), free_port()
    command = _command(folder)
    _configure(folder, port, web)
    _format(command)
    cluster = Hdfs(folder, port, {}, command)
    try:
        for name in _SERVERS:
            cluster.start(name)
        _wait(folder, cluster.servers, partial(_ready, web))
        yield cluster
    finally:
        stop(cluster.servers.values(), seconds=_STOP_SECONDS)


def _command(folder: Path) -> list[str]:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        raise HdfsError("there is no Java here; run `make setup`, and set JAVA_HOME")
    try:
        classes = [folder / "conf", folder, *jars()]
    except MissingJarsError as error:
        raise HdfsError(str(error)) from error
    return [java, *_JAVA, "-classpath", ":".join(map(str, classes))]


def _environ() -> dict[str, str]:
    return {**os.environ, "HADOOP_USER_NAME": SUPERUSER}


def _configure(folder: Path, port: int, web: int) -> None:
    for server in ("hdfs", "datanode"):  # without their web pages, which the jars lack
        page = folder / "webapps" / server / "WEB-INF" / "web.xml"
        page.parent.mkdir(parents=True)
        page.write_text("<web-app/>")
    conf = folder / "conf"
    conf.mkdir()
    (conf / "log4j.properties").write_text(_LOG4J)
    uri = f"hdfs://127.0.0.1:{port}"
    view = {"fs.viewfs.mounttable.view.link./mounted": f"{uri}/tests"}
    groups = ";".join(f"{user}={groups}" for user, groups in GROUPS.items())
    overlay = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
    target = "fs.viewfs.overload.scheme.target"
    fakes = {
        "fs.gs.impl": overlay,
        "fs.wasb.impl": overlay,
        f"{target}.hdfs.impl": "org.apache.hadoop.hdfs.DistributedFileSystem",
        f"{target}.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "fs.viewfs.mounttable.bucket.link./lake": f"{uri}/tests",
        "fs.viewfs.mounttable.box.link./disk": f"file://{folder}/disk",
    }
    (folder / "disk").mkdir()
    mapping = {"hadoop.user.group.static.mapping.overrides": groups}
    (conf / "core-site.xml").write_text(_xml({"fs.defaultFS": uri, **view, **fakes, **mapping}))
    (conf / "hdfs-site.xml").write_text(_xml({**_servers(folder, web), **_client()}))


def _servers(folder: Path, web: int) -> dict[str, str]:
    return {
        "dfs.namenode.name.dir": f"file://{folder}/names",
        "dfs.datanode.data.dir": f"file://{folder}/data",
        "dfs.namenode.http-address": f"127.0.0.1:{web}",
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.webhdfs.enabled": "false",
        "dfs.namenode.acls.enabled": "true",
        "dfs.replication": "1",
        "dfs.namenode.safemode.extension": "0",
        # The names need to survive no crash of the machine.
        "dfs.namenode.edits.noeditlogchannelflush": "true",
    }


def _client() -> dict[str, str]:
    return {
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
        "dfs.client.retry.window.base": "10",
        "ipc.client.connect.max.retries": "1",
        "ipc.client.connect.retry.interval": "10",
    }


def _xml(settings: Mapping[str, str]) -> str:
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return "<configuration>\n" + "\n".join(lines) + "\n</configuration>\n"


def _format(command: list[str]) -> None:
    run = [*command, _SERVERS["namenode"], "-format", "-force", "-nonInteractive"]
    done = subprocess.run(run, env=_environ(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise HdfsError(f"the NameNode could not be formatted:\n{done.stderr[-2000:]}")


def _wait(folder: Path, servers: Mapping[str, Process], ready: Callable[[], bool]) -> None:
    if wait_until(ready, seconds=_START_SECONDS, needed=servers.values()):
        return
    said = "\n".join(end_of(folder / f"{name}.log") for name in servers)
    raise HdfsError(f"HDFS did not become ready; the end of its logs:\n{said}")


def _ready(web: int) -> bool:
    """Tells whether the NameNode takes writes, and its DataNode has told it of room for blocks."""
    query = "Hadoop:service=NameNode,name=FSNamesystemState"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/jmx?qry={query}", timeout=5) as answer:
            (state,) = json.load(answer)["beans"]
    except (urllib.error.URLError, OSError, ValueError):
        return False
    registered = state["NumLiveDataNodes"] == 1
    # The room is known from the DataNode's first heartbeat, which comes after it is registered.
    return bool(registered and state["CapacityRemaining"] > 0 and state["FSState"] == "Operational")
