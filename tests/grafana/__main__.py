"""Makes JSON schemas from Grafana's own types: `python -m tests.grafana`.

Its npm package `@grafana/schema` has the types of a dashboard and of each panel's options. The
schemas are kept beside this file, so that the tests need neither npm nor node; what is said about
a type in words is left out. Run this for another version of Grafana.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
# The oldest Grafana 11 and the newest 12 that were there; what both take, those between do too.
VERSIONS = ("11.0.0", "12.4.11")
TOOLS = ("ts-json-schema-generator@2.4.0", "typescript@5.6.3")
PANELS = ("heatmap", "stat", "table", "text", "timeseries")
_SETTINGS = {
    "compilerOptions": {
        "module": "esnext",
        "moduleResolution": "bundler",
        "skipLibCheck": True,
        "strict": True,
        "target": "es2022",
        "types": [],
    },
    "include": ["*.ts"],
}


def make(version: str, folder: Path) -> dict[str, Any]:
    """Returns the schemas of one version: of a dashboard, and of each panel's own part."""
    (folder / "package.json").write_text('{"private": true}')
    (folder / "tsconfig.json").write_text(json.dumps(_SETTINGS))
    install = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
    subprocess.run([*install, f"@grafana/schema@{version}", *TOOLS], cwd=folder, check=True)
    types = folder / "node_modules" / "@grafana" / "schema" / "dist"
    raw = next(one for one in (types / "types" / "raw", types / "esm" / "raw") if one.is_dir())
    found = {"dashboard": _schema(folder, "dashboard", _dashboard(_types(raw / "dashboard")))}
    for panel in PANELS:
        declared = _types(raw / "composable" / panel / "panelcfg")
        found[panel] = _schema(folder, panel, _panel(declared))
    return found


def _types(folder: Path) -> Path:
    [declared] = (folder / "x").glob("*types.gen.d.ts")
    return declared


def _dashboard(declared: Path) -> str:
    return (
        f"import type * as D from '{_module(declared)}';\n"
        "export interface Root extends Omit<D.Dashboard, 'panels'> "
        "{ panels: Array<D.RowPanel | D.Panel> }\n"
    )


def _panel(declared: Path) -> str:
    custom = "custom?: Partial<P.FieldConfig>;" if "FieldConfig" in declared.read_text() else ""
    return (
        f"import type * as P from '{_module(declared)}';\n"
        f"export interface Root {{ options: Partial<P.Options>; {custom} }}\n"
    )


def _module(declared: Path) -> str:
    return str(declared).removesuffix(".d.ts")


def _schema(folder: Path, name: str, source: str) -> dict[str, Any]:
    (folder / f"{name}.ts").write_text(source)
    program = folder / "node_modules" / ".bin" / "ts-json-schema-generator"
    asked = ["--tsconfig", "tsconfig.json", "--path", f"{name}.ts", "--type", "Root"]
    done = subprocess.run(
        [program, *asked, "--no-type-check", "--no-top-ref"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = _without_words(json.loads(done.stdout))
    return found


def _without_words(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_words(one) for one in part]
    if not isinstance(part, dict):
        return part
    words = {key for key in ("description", "default") if not isinstance(part.get(key), dict)}
    return {key: _without_words(one) for key, one in part.items() if key not in words}


def main() -> None:
    """Writes a file for each version."""
    for version in VERSIONS:
        with tempfile.TemporaryDirectory(prefix="statemaint-grafana-") as folder:
            found = make(version, Path(folder))
        lines = [f"{json.dumps(name)}: {_text(one)}" for name, one in found.items()]
        (FOLDER / f"{version}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
