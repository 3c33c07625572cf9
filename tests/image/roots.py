"""Unpacked roots in which the steps of a Dockerfile run, instead of a container engine.

A root is an overlay: the base below, the changes of a stage above. Each command has mounts of its
own, which end with it, and nothing is written outside the overlay. That takes root.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# The mounts of a command: its root, and what each container has too.
_SETUP = """
set -e
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK" "$ROOT"
mount --rbind /dev "$ROOT/dev"
mount -t proc proc "$ROOT/proc"
for place in /etc/resolv.conf /etc/ssl/certs; do
  [ ! -e "$ROOT$place" ] || mount --bind "$place" "$ROOT$place"
done
"""
_BUILD = 'mount -t tmpfs tmpfs "$ROOT/tmp"; exec chroot "$ROOT" /usr/bin/env -i "$@"'
# As the restricted pods of the chart: nothing is writable but /tmp, and the user has no rights.
_POD = """
mount -o remount,ro "$ROOT"
mount -t tmpfs -o mode=1777,size=256m tmpfs "$ROOT/tmp"
exec chroot "$ROOT" /usr/bin/setpriv --reuid "$OWNER" --regid "$GROUP" --clear-groups \
  --no-new-privs --bounding-set=-all --inh-caps=-all /usr/bin/env -i "$@"
"""

# As somebody who has just logged in: an ordinary user, in a home of theirs.
_LOGIN = """
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
exec chroot "$ROOT" /usr/bin/setpriv --reuid "$OWNER" --regid "$OWNER" --clear-groups \
  --no-new-privs /usr/bin/env -i "$@"
"""


@dataclass(frozen=True, slots=True)
class Root:
    """One root.

    Attributes:
        bases: the folders that it begins with, the uppermost first.
        folder: a folder of its own.
    """

    bases: tuple[Path, ...]
    folder: Path

    @property
    def changes(self) -> Path:
        return self.folder / "upper"

    def make(self) -> None:
        """Makes the folders of the overlay."""
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True)

    def make_folder(self, path: str) -> None:
        """Makes a folder, with what is missing above it."""
        self.run(["mkdir", "-p", path], {})

    def add(self, path: str, content: bytes) -> None:
        """Adds a file that everybody reads."""
        to = self.changes / path.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._unshared(_SETUP + _BUILD, command, environment).check_returncode()

    def run_as_pod(
        self, command: Sequence[str], environment: Mapping[str, str], *, user: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as a user, with a read-only root and no rights; returns what it said."""
        owner, _, group = user.partition(":")
        pod = f"OWNER={owner}; GROUP={group}\n{_POD}"
        return self._unshared(_SETUP + pod, command, environment, said=True)

    def run_as_user(
        self, command: Sequence[str], environment: Mapping[str, str], *, uid: int, offline: bool
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as an ordinary user, with or without a network; returns what it said."""
        net = ["--net"] if offline else []
        script = f"OWNER={uid}\n{_SETUP}{_LOGIN}"
        return self._unshared(script, command, environment, said=True, more=net)

    def copy(self, source: Path, target: str) -> None:
        """Copies a file or folder to a path of the root, as `COPY` does."""
        to = self.changes / target.lstrip("/")
        into = to / source.name if target.endswith("/") else to
        into.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")  # as .dockerignore
            shutil.copytree(source, into, symlinks=True, dirs_exist_ok=True, ignore=ignored)
        else:
            shutil.copy2(source, into)

    def _unshared(
        self,
        script: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        said: bool = False,
        more: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        places = {
            "LOWER": ":".join(map(str, self.bases)),
            "UPPER": str(self.changes),
            "WORK": str(self.folder / "work"),
            "ROOT": str(self.folder / "root"),
        }
        variables = {**_of_clients(), **environment}
        given = [f"{name}={value}" for name, value in variables.items()]
        how = ["unshare", "--mount", *more, "--propagation", "private", "sh", "-c", script, "sh"]
        return subprocess.run(
            [*how, *given, *command],
            env={**os.environ, **places},
            capture_output=said,
            text=True,
            check=False,
        )


def with_python(base: Path, folder: Path) -> tuple[Path, Path]:
    """Returns a base with this process's Python below `/usr/local`, as in Python's own images."""
    root = Root((base,), folder)
    root.make()
    source, target = Path(sys.base_prefix), root.changes / "usr" / "local"
    for name in ("bin", "lib"):
        shutil.copytree(source / name, target / name, symlinks=True, ignore=_not_in_images)
    root.run(["sh", "-c", "ldconfig; touch /etc/resolv.conf"], {"PATH": "/sbin:/usr/sbin:/bin"})
    return root.changes, base


def _not_in_images(folder: str, names: list[str]) -> list[str]:
    if Path(folder).name == "site-packages":
        return [name for name in names if not name.startswith(("pip", "setuptools"))]
    return [name for name in names if name in ("__pycache__", "test", "idlelib")]


def _of_clients() -> dict[str, str]:
    """Returns the variables by which a client reaches its registry, and no others."""
    return {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
