"""On what machine, and with what, the results came about."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path


def described(*, spark: bool) -> str:
    """Returns the machine and the versions that matter, in one sentence."""
    parts = [f"{_cpu()}, {os.cpu_count()} cores, {_ram_gib():.0f} GiB of memory"]
    parts += [f"Python {platform.python_version()}"]
    names = ("numpy", "numba", "lz4", "cramjam", "xxhash", *(["pyspark"] if spark else []))
    parts += [f"{name} {version(name)}" for name in names]
    return ", ".join([*parts, *([f"Java {_java()}"] if spark else [])])


def _cpu() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _ram_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else "java"
    told = subprocess.run([program, "-version"], check=True, capture_output=True, text=True).stderr
    found = re.search(r'version "([^"]*)"', told)
    return found[1] if found else "unknown"
