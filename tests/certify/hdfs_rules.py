"""Two rules of the HDFS-backed provider: the files of a version, and Hadoop's checksums."""

import zlib


def files_for(entries: dict[int, str], version: int) -> list[int] | None:
    """Mirrors `filesForVersion`; `None` where Spark raises."""
    if version not in entries:
        return None
    base = max((one for one, kind in entries.items() if kind == "snapshot" and one <= version),
               default=0)  # fmt: skip
    files = [one for one in entries if base < one <= version]
    if base and len(files) != version - base:
        return None
    return sorted([base, *files] if base else files)


def hadoop(content: bytes) -> bytes:
    """Returns the `.NAME.crc` that Hadoop writes beside a file on disk."""
    sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    return b"crc\0" + (512).to_bytes(4) + b"".join(one.to_bytes(4) for one in sums)
