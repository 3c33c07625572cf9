"""Builds what a release consists of, and checks it.

    python .ci/dist.py [FOLDER]          dist by default

That is the wheel, the source archive, bills of materials of the images `cli` and `spark`, the chart
as a package for an OCI registry, and release notes. The checks: what the metadata name exists, the
description is a README that a package index shows, the wheel has the whole package with its manual
pages and no tests, every file has the hash that its record names, the source archive builds the
same wheel, and the chart's package renders as the chart does.
"""

import base64
import csv
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import helm_python
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from statemaint import __version__

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "helm" / "statemaint"
BILLS = {"statemaint": "requirements-image.lock", "statemaint-spark": "requirements-spark.lock"}
EXTRAS = {"airflow", "arrow", "hadoop", "metrics", "rocksdb", "s3", "spark"}
NEEDED = ("statemaint/py.typed", "statemaint/queries/schema.json", "statemaint/cli/main.py")
_NAMED = ("Name", "Version", "Summary", "License-Expression", "Requires-Python")


def main(folder: str = "") -> None:
    """Builds and checks."""
    place = Path(folder or ROOT / "dist").resolve()
    place.mkdir(parents=True, exist_ok=True)
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(place))
    (source,) = SdistBuilder(str(ROOT)).build(directory=str(place))
    with zipfile.ZipFile(wheel) as archive:
        check_wheel(archive)
    check_source(Path(source), Path(wheel))
    bills = []
    for image, lock in BILLS.items():
        bills.append(place / f"{image}-{__version__}.cdx.json")
        bills[-1].write_bytes(printed_by(".ci/sbom.py", lock))
    chart = packaged_chart(place)
    files = [Path(wheel), Path(source), *bills, chart]
    notes = place / f"release-notes-{__version__}.md"
    notes.write_text(release_notes(files), encoding="utf-8")
    for file in (*files, notes):
        sys.stdout.write(f"{file.name}: {file.stat().st_size / 1000:,.0f} kB, {sha256(file)}\n")


def check_wheel(archive: zipfile.ZipFile) -> None:
    """Checks the files and the metadata of a wheel."""
    names = archive.namelist()
    (record,) = (one for one in names if one.endswith(".dist-info/RECORD"))
    info = record.removesuffix("RECORD")
    check_metadata(archive.read(f"{info}METADATA"))
    points = archive.read(f"{info}entry_points.txt").decode()
    must("statemaint = statemaint.cli:main" in points, "the program is an entry point")
    missing = [one for one in NEEDED if one not in names]
    must(not missing, f"the wheel has every file of the package, not only {missing}")
    pages = {Path(one).name for one in names if "/share/man/man1/" in one}
    kept = {page.name for page in (ROOT / "docs/man").iterdir()}
    must(pages == kept, "the wheel has every manual page")
    foreign = [one for one in names if not one.startswith(("statemaint/", "statemaint-"))]
    must(not foreign, f"the wheel has nothing else: {foreign[:3]}")
    check_record(archive, record)


def check_metadata(content: bytes) -> None:
    """Checks the metadata of a wheel, as a package index does."""
    facts = BytesParser().parsebytes(content)
    for name in _NAMED:
        must(bool(facts.get(name)), f"the metadata have {name}")
    must({*facts.get_all("Provides-Extra", [])} == EXTRAS, "the metadata have every extra")
    must(facts["Description-Content-Type"] == "text/markdown", "the description is Markdown")
    must(str(facts.get_payload()).startswith("# statemaint\n"), "the description is the README")


def check_record(archive: zipfile.ZipFile, record: str) -> None:
    """Checks that each file of a wheel has the hash and the size that the record names."""
    for name, digest, size in csv.reader(io.StringIO(archive.read(record).decode())):
        if name != record:
            content = archive.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            must(f"sha256={found.decode()}" == digest, f"{name} has the hash of its record")
            must(len(content) == int(size), f"{name} has the size of its record")


def check_source(source: Path, wheel: Path) -> None:
    """Checks that a source archive builds the same wheel."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        (again,) = WheelBuilder(str(unpacked)).build(directory=folder)
        with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
            must(contents(first) == contents(second), "the source archive builds the same wheel")


def contents(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """Returns the files of an archive."""
    return {name: archive.read(name) for name in archive.namelist()}


def packaged_chart(place: Path) -> Path:
    """Packages the chart as `helm package` does, and checks that the package renders."""
    package = Path(helm_python.package(CHART, destination=place))
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    must(package.name == f"statemaint-{about['version']}.tgz", "the package has the chart's name")
    must(about["version"] == about["appVersion"] == __version__, "the chart has our version")
    with tarfile.open(package) as archive:
        inside = {one.removeprefix("statemaint/") for one in archive.getnames()}
    files = {str(one.relative_to(CHART)) for one in CHART.rglob("*") if one.is_file()}
    left_out = {one for one in files - inside if not one.startswith((".", "ci/"))}
    must(not left_out, f"the package has every file of the chart, not only without {left_out}")
    for values in sorted((CHART / "ci").glob("*-values.yaml")):
        must(
            rendered(package, values) == rendered(CHART, values), f"{values.name} renders the same"
        )
    return package


def rendered(chart: Path, values: Path) -> Any:
    """Returns what a chart makes of some values."""
    given = yaml.safe_load(values.read_text())
    return helm_python.Chart.load(chart).render(given, name="statemaint", namespace="default")


def release_notes(files: Sequence[Path]) -> str:
    """Returns the notes: what has changed, how to build, push and install, and what is in dist."""
    version, sections = __version__, (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]
    of_version = [one for one in sections if one.startswith(f"[{version}]")]
    changes = "\n".join(one.partition("\n")[2].strip() for one in of_version)
    must(bool(changes), f"the changelog has {version}")
    listed = "\n".join(f"| {one.name} | `{sha256(one)}` |" for one in files)
    return f"""\
# statemaint {version}

Build the image (docs/install.md has its targets), push it and the chart, and install:

```sh
docker build --target cli --tag REGISTRY/statemaint:{version} .
docker push REGISTRY/statemaint:{version} && helm push statemaint-{version}.tgz oci://REGISTRY/charts
helm install statemaint oci://REGISTRY/charts/statemaint --version {version} --values values.yaml
```

## Files

| file | digest |
|---|---|
{listed}

## Changes

{changes}
"""


def printed_by(script: str, *arguments: str) -> bytes:
    """Returns what a script prints, which has to be JSON."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE)  # noqa: S603
    json.loads(done.stdout)
    return done.stdout


def sha256(file: Path) -> str:
    """Returns the digest of a file."""
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def must(holds: bool, fact: str) -> None:  # noqa: FBT001 -- it reads as a sentence
    """Ends the program where a fact does not hold."""
    if not holds:
        sys.exit(f"not so: {fact}")


if __name__ == "__main__":
    main(*sys.argv[1:])
