"""The policies in helm/iam, against what each verb asks a server for: enough, and no more."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from statemaint.storage import MemoryStorage, Storage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import write_checkpoint
from tests.support.iam import Policy, guarded, policy_of, rights
from tests.support.paths import ROOT
from tests.support.s3 import Moto
from tests.unit.cli.test_program import TIGHT, run

pytestmark = [pytest.mark.s3, pytest.mark.slow]

IAM = ROOT / "helm" / "iam"
ROLES = ("read", "write", "delete")
# What only goes wrong takes: an upload in parts that fails.
RARE = {"s3:AbortMultipartUpload"}
READS = {
    "scan": ["scan"],
    "plan": ["plan", *TIGHT],
    "a dry run": ["maintain", *TIGHT, "--dry-run"],
    "verify": ["verify", "--deep"],
    "doctor": ["doctor"],
    "digest": ["digest"],
    "stats": ["stats"],
    "show": ["show", "--operator", "0", "--partition", "0", "--limit", "1"],
    "runs": ["runs"],
    "a look at a repair": ["repair"],
    "a look at a rollback": ["rollback", "--to-batch", "11"],
}
WRITES = {
    "snapshots alone": ["maintain", *TIGHT, "--max-deletes-per-run", "0"],
    "without proof": ["maintain", *TIGHT, "--no-verify"],
}
TRASH = [*TIGHT, "--trash-for", "7d"]


@dataclass(frozen=True, slots=True)
class Lake:
    """A checkpoint behind a policy."""

    policy: Policy
    address: str
    storage: Storage
    moto: Moto

    def fill(self, files: Mapping[str, bytes]) -> "Lake":
        """Puts files there, those of the state with a tag, which snapshots then have too."""
        state = {path: content for path, content in files.items() if path.startswith("state/")}
        self.moto.fill(self.address, state, team="streaming")
        self.moto.fill(self.address, {path: files[path] for path in files.keys() - state.keys()})
        return self

    def run(self, verb: list[str]) -> subprocess.CompletedProcess[str]:
        return run(verb[0], self.address, *verb[1:])

    def take(self, role: str) -> None:
        """Holds what follows to a role, and forgets what came before."""
        self.policy.document = policy_of(IAM / f"{role}.json", self.address)
        self.policy.taken.clear()
        self.policy.denied.clear()

    def actions(self) -> set[str]:
        return {action for action, _ in self.policy.taken}

    def state(self) -> set[str]:
        return {entry.path for entry in self.storage.list("state")}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    policy = Policy()
    with guarded(policy) as url:
        monkeypatch.setenv("STATEMAINT_S3_ENDPOINT", url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        moto = Moto(url)
        address = f"s3://{moto.bucket()}/checkpoints/hourly"
        yield Lake(policy, address, moto.storage(address), moto)


@pytest.fixture
def lake(opened: Lake) -> Lake:
    """A checkpoint of a real Spark."""
    return opened.fill(contents("4.3.0")["aggregation1"])


@pytest.fixture
def neglected(opened: Lake) -> Lake:
    """A checkpoint with much to delete."""
    memory = write_checkpoint(MemoryStorage(), partitions=1)
    return opened.fill(memory.files)


def last_batch(lake: Lake) -> int:
    return max(
        int(entry.path.rpartition("/")[2])
        for entry in lake.storage.list("commits")
        if entry.path.rpartition("/")[2].isdecimal()
    )


def test_who_may_read_runs_every_verb_that_reads(lake: Lake) -> None:
    lake.take("read")
    for name, verb in READS.items():
        done = lake.run(verb)
        refused = {(action, path.rpartition("/")[2]) for action, path in lake.policy.denied}
        # A verification is in the metrics where it may write.
        tried = {("s3:PutObject", "metrics.json")} if name == "verify" else set()
        assert (done.returncode in (0, 3), refused) == (True, tried), (name, done.stderr)
        assert lake.actions() - {action for action, _ in tried} == actions_of("read"), name
        lake.take("read")


def test_who_may_write_writes_snapshots_and_deletes_no_state(lake: Lake) -> None:
    before = lake.state()
    lake.take("write")
    for name, verb in WRITES.items():
        done = lake.run(verb)
        assert (done.returncode, lake.policy.denied) == (0, set()), (name, done.stderr)
    assert before < lake.state()
    assert lake.actions() == actions_of("write") - RARE


def test_who_may_delete_maintains_and_takes_it_back(neglected: Lake) -> None:
    before = neglected.state()
    neglected.take("delete")
    done = neglected.run(["maintain", *TRASH, "--json"])
    assert (done.returncode, neglected.policy.denied) == (0, set()), done.stderr
    assert before - neglected.state()
    undone = neglected.run(["undo", json.loads(done.stdout)["run"]])
    assert (undone.returncode, neglected.policy.denied) == (0, set()), undone.stderr
    assert before <= neglected.state()
    rolled = neglected.run(["rollback", "--to-batch", str(last_batch(neglected) - 1), "--apply"])
    assert (rolled.returncode, neglected.policy.denied) == (0, set()), rolled.stderr
    assert neglected.actions() == actions_of("delete") - RARE


def test_who_may_read_changes_nothing(lake: Lake) -> None:
    before = lake.state()
    lake.take("read")
    done = lake.run(["maintain", *TIGHT])
    assert done.returncode == 5
    assert "access denied" in done.stderr
    assert lake.state() == before


def test_who_may_write_cannot_delete_the_querys_files(neglected: Lake) -> None:
    before = neglected.state()
    neglected.take("write")
    done = neglected.run(["maintain", *TIGHT])
    assert done.returncode == 5, done.stderr
    assert "s3:DeleteObject is not allowed" in done.stderr
    assert before <= neglected.state()
    assert {action for action, _ in neglected.policy.denied} == {"s3:DeleteObject"}


def test_a_role_ends_at_its_checkpoint(lake: Lake) -> None:
    lake.take("delete")
    inside = f"arn:aws:s3:::{lake.address.removeprefix('s3://')}"
    assert lake.policy.allows(("s3:DeleteObject", f"{inside}/state/0/0/1.delta"))
    assert not lake.policy.allows(("s3:DeleteObject", f"{inside}_2/state/0/0/1.delta"))
    assert not lake.policy.allows(("s3:PutBucketPolicy", inside.partition("/")[0]))


@pytest.mark.parametrize("role", ROLES)
def test_the_policies_are_valid_and_a_role_has_all_that_the_one_before_has(role: str) -> None:
    document = json.loads((IAM / f"{role}.json").read_text())
    assert document["Version"] == "2012-10-17"
    assert all(
        each.keys() == {"Sid", "Effect", "Action", "Resource"} for each in document["Statement"]
    )
    assert {each["Effect"] for each in document["Statement"]} == {"Allow"}
    assert all("*" not in action for action in actions_of(role))
    if before := ROLES[: ROLES.index(role)]:
        assert actions_of(before[-1]) <= actions_of(role)


def test_the_documents_show_these_policies() -> None:
    shown = (ROOT / "docs" / "storage.md").read_text()
    assert {action for action in actions_of("delete") if f'"{action}"' in shown} | {
        "s3:ListBucket"
    } == (actions_of("delete"))


@pytest.mark.parametrize(
    ("request_", "taken"),
    [
        (("GET", "/b", "list-type=2&prefix=x", {}, b""), {("s3:ListBucket", "")}),
        (("HEAD", "/b", "", {}, b""), {("s3:ListBucket", "")}),
        (("GET", "/b/k", "tagging", {}, b""), {("s3:GetObjectTagging", "/k")}),
        (("PUT", "/b/k", "partNumber=1&uploadId=x", {}, b""), {("s3:PutObject", "/k")}),
        (("DELETE", "/b/k", "uploadId=x", {}, b""), {("s3:AbortMultipartUpload", "/k")}),
        (("PUT", "/b/k", "", {"x-amz-copy-source": "b/o", "x-amz-tagging": "a=b"}, b""),
         {("s3:PutObject", "/k"), ("s3:PutObjectTagging", "/k"), ("s3:GetObject", "/o")}),
        (("PUT", "/b/k", "", {"x-amz-grant-read": "id=1"}, b""),
         {("s3:PutObject", "/k"), ("s3:PutObjectAcl", "/k")}),
        (("POST", "/b", "delete", {}, b"<Delete><Object><Key>k</Key></Object></Delete>"),
         {("s3:DeleteObject", "/k")}),
    ],
    ids=lambda one: str(sorted(one) if isinstance(one, set) else one),
)  # fmt: skip
def test_a_request_takes_the_rights_of_its_operation(
    request_: tuple[str, str, str, dict[str, str], bytes], taken: set[tuple[str, str]]
) -> None:
    assert rights(*request_) == {(action, f"arn:aws:s3:::b{key}") for action, key in taken}


def actions_of(role: str) -> set[str]:
    document = json.loads((IAM / f"{role}.json").read_text())
    return {action for statement in document["Statement"] for action in statement["Action"]}
