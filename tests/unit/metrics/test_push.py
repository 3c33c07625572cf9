"""A push: one request, in a bounded time, with credentials that are never shown."""

import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from statemaint.maintain import maintain
from statemaint.metrics import publish
from statemaint.metrics.families import families
from statemaint.metrics.options import GatewayAuth, Targets
from statemaint.metrics.publish import Gateway, publish_record, publish_waiting, write_textfile
from statemaint.report.record import Cause, LastRun, Record, next_record
from tests.support.metrics import ORIGIN, TIGHT, ended, maintained, named, neglected, series_of
from tests.support.planted import plant, secret
from tests.support.serving import served

NOW = 1_800_000_000.0
WORD = secret("of-a-push")
FILE = "statemaint_q@an%20installation.prom"


@dataclass(slots=True)
class Asked:
    """A server, and what it was asked."""

    url: str
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)


@contextmanager
def server(
    *, status: int = 200, hold: threading.Event | None = None, groups: str = ""
) -> Iterator[Asked]:
    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if groups else 501)
            self.end_headers()
            self.wfile.write(groups.encode())

        def do_POST(self) -> None:
            asked.requests.append((self.command, self.path, self.headers["Authorization"]))
            asked.bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if hold:
                hold.wait(60)
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()

        do_PUT = do_POST  # noqa: N815 -- the library calls it by this name

    with served(Gateway) as url:
        asked = Asked(url)
        try:
            yield asked
        finally:
            if hold:
                hold.set()


@pytest.fixture(autouse=True)
def _no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(publish.USER_VARIABLE, raising=False)


def record() -> Record:
    return maintained(neglected(NOW, 30), NOW)


def test_a_query_of_thirty_partitions_is_one_request() -> None:
    with server() as asked:
        assert publish_record(named(), record(), Targets(asked.url))
    assert asked.requests == [
        ("POST", "/metrics/job/statemaint/origin/an%20installation/query/q", None)
    ]


def test_every_partition_is_a_second_one_that_replaces_its_group() -> None:
    last = ended(maintain(neglected(NOW, 30), TIGHT), NOW, every_unit=True)
    with server() as asked:
        publish_record(named(every_unit=True), next_record(None, last), Targets(asked.url))
    assert [one[:2] for one in asked.requests] == [
        ("POST", "/metrics/job/statemaint/origin/an%20installation/query/q"),
        ("PUT", "/metrics/job/statemaint/origin/an%20installation/query/q/detail/partition"),
    ]
    assert "statemaint_partition_" not in asked.bodies[0]
    assert asked.bodies[1].count("\nstatemaint_partition_bytes{") == 30


def test_a_query_without_an_installation_has_a_group_of_its_name_alone() -> None:
    with server() as asked:
        publish_record(named(origin=""), record(), Targets(asked.url))
    assert [one[1] for one in asked.requests] == ["/metrics/job/statemaint/query/q"]


def test_a_pushgateway_that_hangs_is_left_after_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(publish, "SECONDS", 0.05)
    with server(hold=threading.Event()) as asked:
        assert not publish_record(named(), record(), Targets(asked.url))
    assert "metrics are not published: no answer of the Pushgateway within 0.05 s" in caplog.text


def test_the_times_of_a_run_are_ten_seconds_in_all() -> None:
    assert publish.SECONDS + publish.WAITING_SECONDS <= 10


def test_what_the_work_raises_is_raised() -> None:
    def fail() -> None:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        publish.within(5, fail)


def test_a_wait_for_a_lease_is_pushed_alone() -> None:
    with server() as asked:
        publish_waiting(named(), NOW, Targets(asked.url))
    assert series_of(asked.bodies[0]) == {("lease_held_timestamp_seconds", ()): NOW}


@pytest.mark.parametrize("status", [302, 400, 401, 500])
def test_an_answer_that_is_no_yes_is_a_loss(status: int, caplog: pytest.LogCaptureFixture) -> None:
    with server(status=status) as asked:
        assert not publish_record(named(), record(), Targets(asked.url))
    assert f"the Pushgateway answers {status}" in caplog.text


def basic(user: str, word: str) -> str:
    return "Basic " + b64encode(f"{user}:{word}".encode()).decode()


def test_each_kind_of_credentials_reaches_the_pushgateway_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair, token = plant(tmp_path / "pair", f"me:{WORD}\n"), plant(tmp_path / "token", WORD)
    gateways = [
        (GatewayAuth(basic_auth_file=str(pair)), None),
        (GatewayAuth(bearer_token_file=str(token)), None),
        (GatewayAuth(), ("me", WORD)),
        (GatewayAuth(), (None, WORD)),
    ]
    with server() as asked:
        for auth, given in gateways:
            targets = Targets(asked.url, auth, tmp_path / "textfiles")
            assert publish_record(named(), record(), targets, credentials=given)
    expected = [basic("me", WORD), f"Bearer {WORD}"]
    assert [one[2] for one in asked.requests] == expected * 2
    written = (tmp_path / "textfiles" / FILE).read_text()
    assert WORD not in caplog.text + written + "".join(asked.bodies)


def test_the_environments_user_is_used_where_nothing_else_is_given() -> None:
    assert publish.credentials_from({}) is None
    assert publish.credentials_from({publish.USER_VARIABLE: "me"}) == ("me", "")


@pytest.mark.parametrize("content", ["", "two\nlines"])
def test_a_file_without_a_secret_is_a_loss_that_names_it(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    auth = GatewayAuth(bearer_token_file=str(file))
    assert not publish_record(named(), record(), Targets("127.0.0.1:9", auth))
    assert f"{file} must have one line" in caplog.text


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://[oops", "127.0.0.1:9"])
def test_an_address_that_nobody_answers_at_is_a_loss(address: str) -> None:
    assert not publish_record(named(), record(), Targets(address))


def test_a_pushgateway_that_does_not_list_its_groups_has_lost_no_push(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with server() as asked:
        assert publish_record(named(), record(), Targets(asked.url, known=frozenset({"q"})))
    assert "metrics of missing queries are not removed: the Pushgateway answers 501" in caplog.text
    assert "not published" not in caplog.text


@pytest.mark.parametrize(
    "groups", ["{}", "[]", '{"data": null}', '{"data": [1]}', '{"data": [{"labels": null}]}', "<p>"]
)
def test_a_list_of_groups_of_another_form_is_no_fault(groups: str) -> None:
    with server(groups=groups) as asked:
        assert publish_record(named(), record(), Targets(asked.url, known=frozenset({"q"})))


def test_a_token_with_a_line_break_is_cut_or_a_loss_that_does_not_show_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with server() as asked:
        targets = Targets(asked.url)
        assert publish_record(named(), record(), targets, credentials=(None, f"{WORD}\n"))
        assert not publish_record(named(), record(), targets, credentials=(None, f"{WORD}\nx"))
    assert [request[2] for request in asked.requests] == [f"Bearer {WORD}"]
    assert "the token for the Pushgateway must have one line" in caplog.text
    assert WORD not in caplog.text


@pytest.mark.parametrize("form", ["http://user:{}@gateway", "user:{}@gateway", "http://u:{}/x@g"])
def test_a_secret_in_the_address_is_a_loss_and_not_shown(
    form: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert not publish_record(named(), record(), Targets(form.format(WORD)))
    assert f"has a secret in it, which would be shown; set {publish.USER_VARIABLE}" in caplog.text
    assert WORD not in caplog.text


def test_a_certificate_that_is_not_there_is_a_loss() -> None:
    auth = GatewayAuth(ca_file="/nowhere.pem")
    assert not publish_record(named(), record(), Targets("https://127.0.0.1:9", auth))
    with pytest.raises(FileNotFoundError):
        Gateway("https://x", GatewayAuth(cert_file="/nowhere.pem")).add({"query": "q"}, [])


def test_a_textfile_keeps_what_a_failed_plan_did_not_see(tmp_path: Path) -> None:
    good = record()
    write_textfile(families(named(), good), named=named(), folder=tmp_path / "new")
    failed = next_record(good, LastRun("later", NOW + 60, (Cause.PLAN,)))
    write_textfile(families(named(), failed), named=named(), folder=tmp_path / "new")
    found = series_of((tmp_path / "new" / FILE).read_text())
    assert found["last_run_timestamp_seconds", ()] == NOW + 60
    assert found["last_success_timestamp_seconds", ()] == NOW
    assert found["partitions", ()] == 30
    assert found["store_chain_length_count", ()] == 30
    (tmp_path / "new" / FILE).write_text("not a metric {")
    write_textfile(families(named(), failed), named=named(), folder=tmp_path / "new")


def test_a_textfile_keeps_the_partitions_of_a_query_that_waits_or_has_no_plan(
    tmp_path: Path,
) -> None:
    detailed, targets = named(every_unit=True), Targets(textfile=tmp_path)
    last = ended(maintain(neglected(NOW, 30), TIGHT), NOW, every_unit=True)
    assert publish_record(detailed, next_record(None, last), targets)
    publish_waiting(detailed, NOW, targets)
    unread = Record(LastRun("later", NOW + 60, (Cause.STORAGE,)))
    assert publish_record(detailed, unread, targets)
    assert (tmp_path / FILE).read_text().count("\nstatemaint_partition_bytes{") == 30
    assert publish_record(named(), record(), targets)
    assert "statemaint_partition_" not in (tmp_path / FILE).read_text()


def test_files_of_queries_that_are_gone_are_deleted_and_no_others(tmp_path: Path) -> None:
    for about in (named("kept"), named("gone"), named("other", origin="another installation")):
        write_textfile(families(about, record()), named=about, folder=tmp_path)
    (tmp_path / "statemaint_broken.prom").write_text("not a metric {")
    targets = Targets(textfile=tmp_path, known=frozenset({"kept"}))
    assert publish_record(named("kept"), record(), targets)
    assert sorted(file.stem for file in tmp_path.iterdir()) == [
        "statemaint_broken",
        "statemaint_kept@an%20installation",
        "statemaint_other@another%20installation",
    ]
    assert ORIGIN in (tmp_path / "statemaint_kept@an%20installation.prom").read_text()


def test_a_folder_that_cannot_be_written_to_is_a_loss(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    targets = Targets(textfile=tmp_path / "file")
    assert not publish_record(named(), record(), targets)
    publish_waiting(named(), NOW, targets)


def test_a_query_with_the_longest_name_has_files(tmp_path: Path) -> None:
    long = named("q" * 200, origin="production.statemaint")
    targets = Targets(textfile=tmp_path)
    assert publish_record(long, record(), targets)
    group = {**long.group, "task": "savepoint-expire"}
    publish.write_task_textfile(tmp_path, group, list(families(long, record())))
    assert {one.suffix for one in tmp_path.iterdir()} == {".prom"}


def test_the_file_of_a_query_has_its_origin_and_replaces_the_files_of_earlier_names(
    tmp_path: Path,
) -> None:
    here, there = named(origin="a b", former="digest"), named(origin="there")
    for about in (named(origin="digest"), there):
        write_textfile(families(about, record()), named=about, folder=tmp_path)
    (tmp_path / "statemaint_q@digest.prom").rename(tmp_path / "statemaint_q.prom")
    write_textfile([], named=there, folder=tmp_path)
    assert (tmp_path / "statemaint_q.prom").exists()
    failed = next_record(record(), LastRun("later", NOW + 60, (Cause.PLAN,)))
    write_textfile(families(here, failed), named=here, folder=tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "statemaint_q@a%20b.prom", "statemaint_q@there.prom",
    ]  # fmt: skip
