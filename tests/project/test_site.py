"""The site of the documents: each has a page, every verb too, and every link leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from statemaint.cli.main import VERBS
from tests.support.paths import ROOT
from tests.support.pictures import FOLDER, pictures


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, ".ci/site.py", str(place)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return place


def test_every_document_is_a_page_and_in_the_list(site: Path) -> None:
    listed = {*re.findall(r'<li><a href="([^"]+)"', (site / "index.html").read_text())}
    documents = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    pages = {one.removesuffix(".md") + ".html" for one in documents}
    assert pages <= listed
    assert all((site / one).is_file() for one in listed)


def test_every_verb_has_a_page_with_its_help_and_what_it_prints(site: Path) -> None:
    for verb in VERBS:
        text = (site / f"docs/cli/{verb}.html").read_text()
        assert f'<h1 id="statemaint-{verb}">' in text
        assert f"Usage: statemaint {verb} " in text
    assert "On the checkpoint <code>damaged</code>" in (site / "docs/cli/doctor.html").read_text()


def test_pictures_and_examples_come_along(site: Path) -> None:
    assert (site / "docs/images/fleet.png").read_bytes() == (FOLDER / "fleet.png").read_bytes()
    assert (site / "docs/images/chain-broken.svg").is_file()
    assert (site / "dags/statemaint_queries.example.yaml").is_file()


def test_a_page_needs_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "<script" not in text
        assert not re.search(r'(?:src|rel="stylesheet" href)="[a-z]+:', text)


def test_a_link_that_leads_nowhere_ends_the_building(tmp_path: Path) -> None:
    import importlib.util  # noqa: PLC0415 -- of a script that is in no package

    spec = importlib.util.spec_from_file_location("site_builder", ROOT / ".ci/site.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    (tmp_path / "one.html").write_text('<h1 id="a"></h1><a href="#a">x</a><a href="#b">x</a>')
    (tmp_path / "two.html").write_text('<a href="one.html#a">x</a><img src="none.png">')
    assert [*builder.broken_links(tmp_path)] == ["one.html: #b", "two.html: none.png"]


def test_the_pictures_are_those_of_the_checkpoints() -> None:
    for name, drawn in pictures():
        assert (FOLDER / name).read_text() == drawn, "run `make generated`"
