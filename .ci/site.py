"""Builds the documents into a site: `python .ci/site.py [FOLDER]`, dist/site by default.

Plain pages without scripts, which any web server or a browser alone shows. Links between documents
become links between pages; files that a document links to come along. Every verb has a page of its
own: its help, and what it prints in the transcripts. A link that leads nowhere is an error.
"""

import html
import posixpath
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
NAVIGATION = {
    "Start": ["README.md", "docs/install.md", "docs/concepts.md", "docs/safety.md"],
    "Use": [
        "docs/policy.md",
        "docs/operations.md",
        "docs/savepoints.md",
        "docs/runbook.md",
        "docs/state.md",
        "docs/airflow.md",
        "docs/spark.md",
        "docs/metrics.md",
        "helm/statemaint/README.md",
        "docs/upgrade.md",
    ],
    "Reference": [
        "docs/cli.md",
        "docs/json.md",
        "docs/python.md",
        "docs/provider.md",
        "docs/storage.md",
        "docs/files.md",
        "docs/formats.md",
        "docs/rules.md",
        "docs/glossary.md",
        "docs/stability.md",
    ],
    "Project": [
        "docs/README.md",
        "docs/benchmarks.md",
        "docs/scale.md",
        "docs/architecture.md",
        "docs/adr/README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
    ],
}
_TRANSCRIPTS = ("join", "rocksdb", "damaged")
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>$title - statemaint</title><link rel="stylesheet" href="${top}style.css"></head>
<body><nav aria-label="Documents">$navigation</nav><main>$body</main></body></html>
""")
_STYLE = """:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { display: flex; margin: 0; font: 16px/1.55 system-ui, sans-serif; }
nav { flex: 0 0 15rem; padding: 1.5rem 1rem; border-right: 1px solid var(--line); font-size: 90%; }
nav ul { list-style: none; padding: 0; } nav a[aria-current] { font-weight: bold; }
main { flex: 1; min-width: 0; max-width: 60rem; padding: 1rem 2rem 4rem; }
pre, code { font-family: ui-monospace, monospace; font-size: 90%; background: var(--soft); }
pre { overflow-x: auto; padding: .8rem; } pre code { background: none; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; vertical-align: top; }
img, svg { max-width: 100%; }
@media (max-width: 50rem) { body { display: block; } nav { border: 0; } }
"""


def main(folder: str = "") -> None:
    """Builds the site."""
    place = Path(folder or ROOT / "dist" / "site").resolve()
    shutil.rmtree(place, ignore_errors=True)
    pages = {page: text for source, text in documents() for page, text in rendered(source, text)}
    for page, text in pages.items():
        write(place / page, text.encode())
    write(place / "style.css", _STYLE.encode())
    for file in linked_files(pages):
        write(place / file, (ROOT / file).read_bytes())
    if broken := [*broken_links(place)]:
        sys.exit("links that lead nowhere:\n" + "\n".join(broken))
    sys.stdout.write(f"{place}: {len(pages)} pages, every link followed\n")


def documents() -> Iterator[tuple[str, str]]:
    """Yields the path and the text of every document, the pages of the verbs among them."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "helm").rglob("*.md")]
    for path in sorted(paths):
        yield path.relative_to(ROOT).as_posix(), path.read_text()
    yield from verbs()


def verbs() -> Iterator[tuple[str, str]]:
    """Yields a document for each verb: its section of docs/cli.md, and what it prints."""
    _, *sections = re.split(r"^## ", (ROOT / "docs/cli.md").read_text(), flags=re.MULTILINE)
    for section in sections:
        verb, _, text = section.partition("\n")
        printed = "".join(transcripts(verb))
        yield f"docs/cli/{verb}.md", f"# statemaint {verb}\n{text}\n{printed}"


def transcripts(verb: str) -> Iterator[str]:
    """Yields what the transcripts have of a verb, on a terminal of 80 columns."""
    for file in (ROOT / f"docs/transcripts/{name}-80.txt" for name in _TRANSCRIPTS):
        name = file.name.removesuffix("-80.txt")
        blocks = re.split(r"\n(?=\$ )", file.read_text() if file.exists() else "")
        shown = [one.strip() for one in blocks if one.startswith(f"$ statemaint {verb} ")]
        if shown:
            yield (
                f"\n## On the checkpoint `{name}`\n\n```console\n" + "\n\n".join(shown) + "\n```\n"
            )


def rendered(source: str, text: str) -> Iterator[tuple[str, str]]:
    """Yields the page of a document, and its content as HTML."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = parser.parse(text)
    number_headings(tokens)
    for token in tokens:
        for child in (token, *(token.children or ())):
            redirect(child, source)
    page = page_of(source)
    title = next(re.finditer(r"^# (.+)$", text, re.MULTILINE))[1].replace("`", "")
    yield (
        page,
        _PAGE.substitute(
            title=html.escape(title),
            top=relative("", page),
            navigation=navigation(page),
            body=parser.renderer.render(tokens, parser.options, {}),
        ),
    )


def number_headings(tokens: Iterable[Token]) -> None:
    """Gives headings the anchors that GitHub gives them."""
    seen: Counter[str] = Counter()
    listed = [*tokens]
    for token, inline in pairwise(listed):
        if token.type == "heading_open":
            shown = "".join(one.content for one in inline.children or () if one.type != "image")
            slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
            token.attrSet("id", f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1


def redirect(token: Token, source: str) -> None:
    """Has a link or a picture lead to a page or a file of the site."""
    for name in ("href", "src"):
        target = str(token.attrs.get(name, ""))
        if not target or re.match(r"[a-z]+:|#", target):
            continue
        path, _, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if (ROOT / there).is_dir():
            there = index_of(there)
        link = relative(page_of(there), page_of(source))
        token.attrSet(name, f"{link}#{anchor}" if anchor else link)


def index_of(folder: str) -> str:
    """Returns the file that stands for a folder: its README, or its first file."""
    readme = ROOT / folder / "README.md"
    first = readme if readme.exists() else min((ROOT / folder).iterdir())
    return first.relative_to(ROOT).as_posix()


def page_of(source: str) -> str:
    """Returns the path of a document's page in the site; of another file, its own."""
    if source == "README.md":
        return "index.html"
    return source.removesuffix(".md") + ".html" if source.endswith(".md") else source


def relative(target: str, page: str) -> str:
    """Returns the link from a page to a path of the site; to its top where that is empty."""
    folder = posixpath.dirname(page)
    if target:
        return posixpath.relpath(target, folder or ".")
    return "../" * len(Path(folder).parts)


def navigation(page: str) -> str:
    """Returns the list of documents, for a page."""
    parts = []
    for heading, sources in NAVIGATION.items():
        parts.append(f"<strong>{heading}</strong><ul>")
        parts += [f"<li>{entry(source, page)}</li>" for source in sources]
        parts.append("</ul>")
    return "".join(parts)


def entry(source: str, page: str) -> str:
    """Returns the link of a document in the list."""
    heading = next(re.finditer(r"^# (.+)$", (ROOT / source).read_text(), re.MULTILINE))[1]
    here = ' aria-current="page"' if page_of(source) == page else ""
    link = relative(page_of(source), page)
    return f'<a href="{link}"{here}>{html.escape(heading.replace("`", ""))}</a>'


def linked_files(pages: dict[str, str]) -> set[str]:
    """Returns the files, other than pages, that pages link to or show."""
    found = set()
    for page, text in pages.items():
        for target in re.findall(r'(?:href|src)="([^"#:]+)[^"]*"', text):
            there = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            if there not in pages and (ROOT / there).is_file():
                found.add(there)
    return found


def broken_links(place: Path) -> Iterator[str]:
    """Yields the links of a site that lead to no file, or to no anchor of a page."""
    texts = {file: file.read_text() for file in sorted(place.rglob("*.html"))}
    ids = {file: {*re.findall(r' id="([^"]+)"', text)} for file, text in texts.items()}
    for file, text in texts.items():
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = html.unescape(target).partition("#")
            there = (file.parent / path).resolve() if path else file.resolve()
            if not there.is_file() or (anchor and anchor not in ids.get(there, {anchor})):
                yield f"{file.relative_to(place)}: {target}"


def write(file: Path, content: bytes) -> None:
    """Writes a file, with the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
