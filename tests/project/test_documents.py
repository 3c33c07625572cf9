"""What the documents refer to exists: rules, tests, code, files and headings."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
RULES = DOCS / "rules.md"
RECORDS = sorted((DOCS / "adr").glob("[0-9]*.md"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINKED = [*DOCUMENTS, *sorted((ROOT / "helm").rglob("*.md"))]
CITED = [
    path
    for folder in ("statemaint", "docs", "tests")
    for pattern in ("*.py", "*.md")
    for path in sorted((ROOT / folder).rglob(pattern))
]


def test_the_rules_are_numbered_without_a_gap() -> None:
    rules = defined_rules()
    assert rules == [f"S{number}" for number in range(1, len(rules) + 1)]


@pytest.mark.parametrize("part", ["Rule", "Without it", "Code", "Tests", "Decision"])
def test_every_rule_has_all_parts(part: str) -> None:
    sections = re.split(r"^## S\d+: .*$", RULES.read_text(), flags=re.MULTILINE)[1:]
    assert all(section.count(f"\n**{part}.** ") == 1 for section in sections)


def test_every_rule_that_is_cited_is_defined() -> None:
    known = set(defined_rules())
    cited = {(rule, path) for path in CITED for rule in cited_rules(path) if rule not in known}
    assert not cited


def test_every_rule_is_in_the_table_at_the_head() -> None:
    head = RULES.read_text().split("\n## ")[0]
    assert re.findall(r"^\| \[(S\d+)\]\(#s\d+-", head, re.MULTILINE) == defined_rules()


@pytest.mark.parametrize("document", [RULES, DOCS / "formats.md"], ids=lambda path: path.name)
def test_every_test_that_is_named_is_in_the_file_before_it(document: Path) -> None:
    for file, name in named_tests(document.read_text()):
        assert file, f"{name} follows no file"
        assert name in names_of_tests(ROOT / file), f"{file}: {name}"


def test_every_test_that_the_safety_page_names_exists() -> None:
    names = {name for file in (ROOT / "tests").rglob("*.py") for name in names_of_tests(file)}
    named = {name for _, name in named_tests((DOCS / "safety.md").read_text())}
    assert not named - names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_piece_of_code_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"`(statemaint(?:\.\w+)+)[`(]", document.read_text())
    assert [one for one in named if not code_exists(one)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_of_the_tests_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"`(tests/[\w./-]+)`", document.read_text())
    assert [one for one in named if not (ROOT / one).exists() and not archives(one)] == []


@pytest.mark.parametrize("document", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    for target, anchor in links(document.read_text()):
        there = document.parent / target if target else document
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.read_text()), f"{target}#{anchor}"


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.name[:4])
def test_every_decision_record_is_in_the_index_under_its_title(record: Path) -> None:
    title = record.read_text().partition("\n")[0].removeprefix(f"# {int(record.name[:4])}. ")
    entry = f"| [{int(record.name[:4])}]({record.name}) | {title} |"
    assert entry in (DOCS / "adr/README.md").read_text()


def test_every_document_is_in_the_index() -> None:
    listed = {target for target, _ in links((DOCS / "README.md").read_text())}
    assert {path.name for path in DOCS.iterdir() if path.is_file()} - {"README.md"} <= listed


def test_the_glossary_is_in_alphabetical_order() -> None:
    words = re.findall(r"^\*\*(.+?)\*\*", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert words == sorted(words, key=str.casefold)


def test_anchors_are_those_of_the_web_page() -> None:
    text = "# A `b`, c\n## S1: One_two - x\n```\n# no heading\n```\n## A b c\n## [L](m.md)'s end\n"
    assert anchors(text) == {"a-b-c", "s1-one_two---x", "a-b-c-1", "ls-end"}


def defined_rules() -> list[str]:
    return re.findall(r"^## (S\d+): ", RULES.read_text(), re.MULTILINE)


def cited_rules(path: Path) -> set[str]:
    return set(re.findall(r"\bS[0-9]{1,2}\b", path.read_text()))


def named_tests(text: str) -> Iterator[tuple[str, str]]:
    """Yields each test that a document names, with the file that it names before."""
    file = ""
    for token in re.findall(r"`((?:tests/[\w/]+\.py)|test_\w+)`", text):
        if token.startswith("tests/"):
            file = token
        else:
            yield file, token


@cache
def names_of_tests(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^ *def (test_\w+)\(", file.read_text(), re.MULTILINE))


def archives(name: str) -> bool:
    return any(ROOT.glob(f"{name}*"))


def code_exists(name: str) -> bool:
    """Returns whether a dotted name is that of a package, a module, or something in a module."""
    path, *rest = name.split(".")
    place = ROOT / path
    while rest and (place / rest[0]).is_dir():
        place, rest = place / rest[0], rest[1:]
    if rest and (place / f"{rest[0]}.py").is_file():
        place, rest = place / f"{rest[0]}.py", rest[1:]
    module = place / "__init__.py" if place.is_dir() else place
    return module.is_file() and holds(ast.parse(module.read_text()).body, rest)


def holds(body: list[ast.stmt], names: list[str]) -> bool:
    """Returns whether a module's or a class's body defines a name, and that the rest of them."""
    if not names:
        return True
    found = [node for node in body if names[0] in defined_by(node)]
    inner = [one for node in found if isinstance(node, ast.ClassDef) for one in node.body]
    return bool(found) and (names[1:] == [] or holds(inner, names[1:]))


def defined_by(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return {name}
        case ast.Import(names=found) | ast.ImportFrom(names=found):
            return {one.asname or one.name for one in found}
        case ast.AnnAssign(target=target):
            return {target.id} if isinstance(target, ast.Name) else set()
        case ast.Assign(targets=targets):
            return {one.id for one in targets if isinstance(one, ast.Name)}
        case _:
            return set()


def links(text: str) -> Iterator[tuple[str, str]]:
    """Yields the file and the anchor of each link that stays within the project."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield file, anchor


def anchors(text: str) -> set[str]:
    """Returns the anchors of a document's headings, as GitHub names them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", without_code(text), re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
