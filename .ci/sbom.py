"""Prints a bill of materials of an image's packages: CycloneDX 1.6 as JSON.

    python .ci/sbom.py [LOCK] > dist/statemaint.cdx.json

Its input is `requirements-image.lock`, that of the target `cli`, or another one: each package with
its version and the hashes of its files. `make test-image` compares it with what is in the image.
Licenses are those that the installed packages name. The same lock gives the same document.
"""

import json
import re
import sys
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from statemaint import __version__

ROOT = Path(__file__).resolve().parent.parent
_ENTRY = re.compile(r"^([a-z0-9._-]+)==([^\s;\\]+)(?: *; *([^\\\n]+?))? *\\?$", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def document(lock: Path) -> dict[str, Any]:
    """Returns the bill of materials of a lock file."""
    text = lock.read_text()
    components = [*map(component, re.split(r"\n(?=[a-z0-9])", text.strip()))]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, __version__ + text)}",
        "version": 1,
        "metadata": {"component": named("application", "statemaint", __version__)},
        "components": components,
        "dependencies": [
            {
                "ref": purl("statemaint", __version__),
                "dependsOn": [one["bom-ref"] for one in components],
            }
        ],
    }


def component(entry: str) -> dict[str, Any]:
    """Returns the component of one entry of the lock file."""
    found = _ENTRY.match(entry)
    if found is None:
        raise SystemExit(f"not an entry of a lock file: {entry.splitlines()[0]}")
    name, version, marker = found.groups()
    hashes = [{"alg": "SHA-256", "content": one} for one in _HASH.findall(entry)]
    reference = {"type": "distribution", "url": purl(name, version), "hashes": hashes}
    where = [{"name": "statemaint:marker", "value": marker.strip()}] if marker else []
    return {
        **named("library", name, version),
        **({"licenses": licenses} if (licenses := licenses_of(name)) else {}),
        "externalReferences": [reference],
        **({"properties": where} if where else {}),
    }


def named(kind: str, name: str, version: str) -> dict[str, Any]:
    """Returns the name of a component."""
    link = purl(name, version)
    return {"type": kind, "bom-ref": link, "name": name, "version": version, "purl": link}


def purl(name: str, version: str) -> str:
    """Returns the address of a package of Python."""
    return f"pkg:pypi/{name.replace('_', '-').lower()}@{version}"


def licenses_of(name: str) -> list[dict[str, Any]]:
    """Returns the license that an installed package names; nothing where it is not installed."""
    try:
        facts = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if expression := facts.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = facts.get_all("Classifier") or []
    names = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License ::")]
    return [{"license": {"name": one}} for one in names]


if __name__ == "__main__":
    chosen = ROOT / (sys.argv[1] if sys.argv[1:] else "requirements-image.lock")
    sys.stdout.write(json.dumps(document(chosen), indent=2) + "\n")
