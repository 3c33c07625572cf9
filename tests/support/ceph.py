"""A real Ceph in a folder: one monitor, one OSD that keeps all in memory, one S3 gateway.

Everything belongs to whoever runs the tests, listens on 127.0.0.1 only and ends with the `with`
block.
"""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.demo import processes
from tools.demo.processes import Process, free_port

_PROGRAMS = {
    "ceph-mon": "ceph-mon",
    "ceph-osd": "ceph-osd",
    "radosgw": "radosgw",
    "radosgw-admin": "radosgw",
    "monmaptool": "ceph-mon",
    "ceph": "ceph-common",
    "ceph-authtool": "ceph-common",
}
_KEYS = {
    "mon.": ("mon",),
    "client.admin": ("mon", "osd"),
    "client.rgw": ("mon", "osd"),
    "osd.0": ("mon", "osd"),
}
_START_SECONDS = 45.0
_STOP_SECONDS = 10.0
_CONF = """
[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{mon}
keyring = {folder}/keyring
run dir = {folder}
admin socket =
log file =
mon cluster log file = /dev/null
log to stderr = true
err to stderr = true
mon data = {folder}/mon
mon data avail warn = 1
mon data avail crit = 0
mon allow pool size one = true
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
ms bind ipv4 = true
ms bind msgr1 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{rgw} tcp_nodelay=1
rgw thread pool size = 32
rgw enable usage log = false
rgw gc obj min wait = 1
rgw crypt require ssl = false
rgw crypt s3 kms backend = testing
rgw crypt s3 kms encryption keys = {keys}
"""
# What objects may be encrypted with.
KMS_KEYS = ("key-of-the-query", "another-key")


class CephUnavailableError(Exception):
    """Ceph is not installed, or did not start; the message says which."""


@dataclass(frozen=True, slots=True)
class Ceph:
    """A running gateway and the keys of a user."""

    url: str
    access_key: str
    secret_key: str
    user: Callable[[str], "Ceph"]
    """Makes another user, by its id."""


@contextmanager
def ceph(folder: Path) -> Iterator[Ceph]:
    """Runs a Ceph for the length of a `with` block.

    Raises:
        CephUnavailableError: when a program is missing, or one of them does not start.
    """
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            raise CephUnavailableError(
                f"{program} is not installed; it is in the Debian package {package}"
            )
    with ExitStack() as running:
        yield _Cluster(folder, running).start()


class _Cluster:
    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._folder, self._running = folder, running
        self._fsid = str(uuid.uuid4())
        self._keyring = str(folder / "keyring")
        self._mon, self._rgw = free_port(), free_port()
        for name in ("mon", "osd", "rgw"):
            (folder / name).mkdir()
        keys = " ".join(f"{name}={b64encode(os.urandom(32)).decode()}" for name in KMS_KEYS)
        conf = _CONF.format(folder=folder, fsid=self._fsid, mon=self._mon, rgw=self._rgw, keys=keys)
        (folder / "ceph.conf").write_text(conf)

    def start(self) -> Ceph:
        self._start_monitor()
        self._start_osd()
        gateway = self._spawn("radosgw", "-n", "client.rgw", "-f")
        user = self._user("test")
        self._wait(gateway, "radosgw", user.url)
        return user

    def _user(self, name: str) -> Ceph:
        made = self._run("radosgw-admin", "user", "create", f"--uid={name}", "--display-name=x")
        keys = json.loads(made)["keys"][0]
        url = f"http://127.0.0.1:{self._rgw}"
        return Ceph(url, keys["access_key"], keys["secret_key"], self._user)

    def _start_monitor(self) -> None:
        monmap = str(self._folder / "monmap")
        address = f"[v2:127.0.0.1:{self._mon}]"
        self._run("monmaptool", "--create", "--fsid", self._fsid, "--addv", "a", address, monmap)
        self._make_keyring()
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", self._keyring)
        self._spawn("ceph-mon", "-i", "a", "-f")

    def _make_keyring(self) -> None:
        # The gateway insists on a key, so that everybody has one: all in the one file.
        for name, kinds in _KEYS.items():
            caps = [word for kind in kinds for word in ("--cap", kind, "allow *")]
            create = [] if Path(self._keyring).exists() else ["--create-keyring"]
            self._run("ceph-authtool", *create, self._keyring, "--gen-key", "-n", name, *caps)

    def _start_osd(self) -> None:
        osd = str(uuid.uuid4())
        self._run("ceph", "osd", "new", osd)
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._spawn("ceph-osd", "-i", "0", "-f")

    def _run(self, *command: str) -> str:
        environ = self._environ()
        try:
            done = subprocess.run(
                command,
                check=False,
                env=environ,
                capture_output=True,
                text=True,
                timeout=_START_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise CephUnavailableError(f"{command[0]} did not end in time") from error
        if done.returncode:
            words = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise CephUnavailableError(f"{' '.join(command[:2])} failed: {words[0]}")
        return done.stdout

    def _spawn(self, *command: str) -> Process:
        program, *arguments = command
        path = shutil.which(program) or program
        log = self._folder / f"{program}.log"
        process = processes.spawn([path, *arguments], log=log, environ=self._environ())
        self._running.callback(processes.stop, [process], seconds=_STOP_SECONDS)
        return process

    def _wait(self, process: Process, program: str, url: str) -> None:
        ready = processes.wait_until(
            lambda: _answers(url), seconds=_START_SECONDS, needed=[process]
        )
        if not ready:
            log = processes.end_of(self._folder / f"{program}.log")
            raise CephUnavailableError(f"{program} did not start: {log}")

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "CEPH_CONF": str(self._folder / "ceph.conf"), "CEPH_ARGS": ""}


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 -- our own
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
