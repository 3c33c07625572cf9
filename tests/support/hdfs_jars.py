"""The jars of a NameNode and a DataNode: Hadoop 2.7, as PySpark 2.4 bundled it.

    python -m tests.support.hdfs_jars      fetches them into .run/hdfs, once

No newer PySpark bundles servers, and no other package on PyPI does. The archive's `setup.py` does
not run on today's Python, so it is fetched and unpacked without being built.
"""

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
from unearth import PackageFinder
from unearth.preparer import download_link

from tests.support.paths import ROOT

HOME = ROOT / ".run" / "hdfs"
PYSPARK = "pyspark==2.4.8"
SHA256 = "3a19b71b8dc8dd91ebc943604a05e1ab01bce052456d42937035632d852d78dc"

# What a NameNode and a DataNode load, by the start of the jar's name. They take 25 MB of 220.
_WANTED = (
    "activation-",
    "commons-",
    "guava-",
    "hadoop-",
    "htrace-",
    "jackson-",
    "javax.",
    "jaxb-",
    "jersey-",
    "jetty-",
    "jsr305-",
    "leveldbjni-",
    "log4j-",
    "netty-",
    "protobuf-",
    "servlet-",
    "slf4j-",
    "xbean-",
    "xercesImpl-",
    "xml-apis-",
    "xmlenc-",
)


class MissingJarsError(Exception):
    """The jars are not here."""


def jars() -> list[Path]:
    """Returns the jars.

    Raises:
        MissingJarsError: when they were never fetched.
    """
    found = sorted(_folder().glob("*.jar"))
    if not found:
        raise MissingJarsError("no Hadoop jars; run `make parts`")
    return found


def fetch() -> None:
    """Fetches the jars; a crash leaves no half of them."""
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        archive = _download(Path(folder))
        unpacked = Path(folder) / "jars"
        unpacked.mkdir()
        _unpack(archive, unpacked)
        unpacked.rename(_folder())


def _folder() -> Path:
    return HOME / SHA256[:16]


def _download(folder: Path) -> Path:
    finder = PackageFinder(index_urls=[_index()], no_binary=["pyspark"])
    best = finder.find_best_match(PYSPARK).best
    if best is None:
        raise MissingJarsError(f"the package index has no {PYSPARK}")
    return download_link(finder.session, best.link, folder, {"sha256": [SHA256]})


def _index() -> str:
    """The package index that pip itself would use."""
    settings = Configuration(isolated=False)
    settings.load()
    named = {key.rpartition(".")[2]: value for key, value in settings.items() if "index-url" in key}
    return str(named.get("index-url", PyPI.simple_url))


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as members:
        for member in members:
            name = member.name.rpartition("/")[2]
            if "/deps/jars/" in member.name and name.startswith(_WANTED):
                content = members.extractfile(member)
                assert content is not None
                with (folder / name).open("wb") as file:
                    shutil.copyfileobj(content, file)


if __name__ == "__main__":
    if not _folder().exists():
        fetch()
        print(f"{len(jars())} jars in {_folder()}", file=sys.stderr)  # noqa: T201
