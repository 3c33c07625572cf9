"""A command that is printed is read by a shell as it was meant, whatever the address."""

import json
import re
import shlex
from pathlib import Path

import pytest

from statemaint.storage import LocalStorage
from statemaint.wording import command
from tests.support.checkpoints import write_checkpoint
from tests.support.paths import ROOT
from tests.unit.cli.test_program import TIGHT, run


@pytest.mark.parametrize(
    "address", ["s3://lake/a b", "/data/it's", "s3://lake/$(rm)/x", "s3://lake/ck", "/a;b"]
)
def test_a_command_is_split_into_the_words_that_it_was_made_of(address: str) -> None:
    assert shlex.split(command("undo", address, "RUN")) == ["statemaint", "undo", address, "RUN"]


def test_an_ordinary_address_is_printed_as_it_is() -> None:
    assert command("undo", "s3://lake/ck", "RUN") == "statemaint undo s3://lake/ck RUN"


def test_the_printed_undo_of_a_folder_with_a_space_can_be_run(tmp_path: Path) -> None:
    root = tmp_path / "a b" / "ck"
    root.mkdir(parents=True)
    write_checkpoint(LocalStorage(root))
    printed = run("maintain", str(root), *TIGHT, "--trash-for", "1h").stdout
    name = json.loads(run("runs", str(root), "--json").stdout)["runs"][0]["run"]
    for text in (printed, run("runs", str(root), name).stdout):
        joined = " ".join(text.split())
        found = re.search(rf"statemaint undo .*?{name}", joined)
        assert found
        assert shlex.split(found[0]) == ["statemaint", "undo", str(root), name]


def test_no_command_is_printed_with_an_address_that_is_not_quoted() -> None:
    raw = re.compile(r"statemaint (?:undo|doctor|scan|diff|maintain|runs) \{")
    found = [one for one in (ROOT / "statemaint").rglob("*.py") if raw.search(one.read_text())]
    assert not found
