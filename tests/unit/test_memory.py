"""The memory that is left: of the machine, and of the control groups of either version."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from statemaint.memory import available_memory, resident_memory

MIB = 1024 * 1024


def tree(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def machine(available: int, groups: str = "0::/\n") -> dict[str, str]:
    text = f"MemTotal: 99999999 kB\nMemAvailable:   {available // 1024} kB\n"
    return {"proc/meminfo": text, "proc/self/cgroup": groups}


def v2(folder: str, limit: str, usage: int, cache: int = 0) -> dict[str, str]:
    return {
        f"sys/fs/cgroup/{folder}memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{folder}memory.current": f"{usage}\n",
        f"sys/fs/cgroup/{folder}memory.stat": f"anon 5\ninactive_file {cache}\n",
    }


def v1(folder: str, limit: int, usage: int, cache: int) -> dict[str, str]:
    where = f"sys/fs/cgroup/memory/{folder}memory"
    return {
        f"{where}.limit_in_bytes": f"{limit}\n",
        f"{where}.usage_in_bytes": f"{usage}\n",
        f"{where}.stat": f"inactive_file 7\ntotal_inactive_file {cache}\n",
    }


def test_without_groups_it_is_what_the_machine_has_left(tmp_path: Path) -> None:
    assert available_memory(tree(tmp_path, machine(800 * MIB))) == 800 * MIB


def test_a_container_has_what_its_group_has_left_without_its_page_cache(tmp_path: Path) -> None:
    files = machine(800 * MIB) | v2("", str(512 * MIB), 300 * MIB, 100 * MIB)
    assert available_memory(tree(tmp_path, files)) == 312 * MIB


@pytest.mark.parametrize("limited", ["", "pods/", "pods/one/"])
def test_each_group_above_counts(tmp_path: Path, limited: str) -> None:
    files = machine(800 * MIB, "0::/pods/one\n")
    for folder in ("pods/", "pods/one/"):
        files |= v2(folder, "max", 5)
    files |= v2(limited, str(200 * MIB), 50 * MIB)
    assert available_memory(tree(tmp_path, files)) == 150 * MIB


def test_groups_of_version_1_count_where_they_are_seen(tmp_path: Path) -> None:
    groups = "9:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n"
    files = machine(800 * MIB, groups) | v1("", 256 * MIB, 100 * MIB, 20 * MIB)
    assert available_memory(tree(tmp_path, files)) == 176 * MIB
    files |= v1("docker/abc/", 64 * MIB, 60 * MIB, 0)
    assert available_memory(tree(tmp_path, files)) == 4 * MIB


def test_no_limit_is_not_a_number_of_bytes(tmp_path: Path) -> None:
    files = machine(800 * MIB, "4:memory:/\n0::/\n") | v2("", "max", 5)
    files |= v1("", 0x7FFFFFFFFFFFF000, 100 * MIB, 0)
    assert available_memory(tree(tmp_path, files)) == 800 * MIB


def test_what_is_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    files = machine(800 * MIB) | v2("", str(100 * MIB), 300 * MIB)
    assert available_memory(tree(tmp_path, files)) == 0


def test_a_system_that_does_not_tell_has_all_of_its_memory(tmp_path: Path) -> None:
    assert available_memory(tmp_path) >= available_memory()


def test_this_process_has_memory() -> None:
    before = resident_memory()
    held = b"\1" * (64 * MIB)
    assert resident_memory() - before > len(held) // 2


_FAULTS = """
from resource import RUSAGE_SELF, getrusage
from statemaint.memory import keep_freed_memory
{call}
held = [bytearray(1 << 20) for _ in range(4)]
del held
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(50):
    held = [bytearray(1 << 20) for _ in range(4)]
    del held
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc's")
def test_freed_memory_is_kept_for_the_next_allocation() -> None:
    def faults(call: str) -> int:
        program = [sys.executable, "-c", _FAULTS.format(call=call)]
        return int(subprocess.run(program, check=True, capture_output=True).stdout)

    assert faults("keep_freed_memory()") < 100 < faults("")
