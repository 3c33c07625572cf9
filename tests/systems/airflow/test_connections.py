"""Checkpoints in S3 that an Airflow connection reaches."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from statemaint.airflow.connections import open_checkpoint, s3_options
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import plan_query
from statemaint.errors import ConfigError
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage, S3Options
from tests.support.planted import secret
from tests.support.s3 import Place, moto
from tests.systems.airflow.conftest import Scene
from tests.systems.airflow.support import TARGET, neglected, snapshots, work_on

SECRET = secret("of-the-connection")
POLICY = Policy(min_batches_to_retain=5, grace=0.0)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with moto() as found:
        yield found


def connection(**fields: Any) -> Connection:
    extra = fields.pop("extra", None)
    text = json.dumps(extra) if isinstance(extra, dict) else extra
    return Connection(conn_id="lake", extra=text, **{"conn_type": "aws", **fields})


def refused(environment: dict[str, str] | None = None, **fields: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        s3_options(connection(**fields), environment or {})
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_keys_region_and_endpoint_are_the_connections() -> None:
    extra = {"region_name": "eu-north-1", "endpoint_url": "http://store:9000"}
    found = s3_options(connection(login="key", password=SECRET, extra=extra), {})
    assert found.session is not None
    credentials = found.session.get_credentials()
    assert credentials is not None
    assert (credentials.access_key, credentials.secret_key) == ("key", SECRET)
    assert found.session.region_name == "eu-north-1"
    assert found.endpoint == "http://store:9000"


def test_a_session_token_goes_with_the_keys() -> None:
    extra = {"aws_session_token": SECRET}
    found = s3_options(connection(login="key", password=SECRET, extra=extra), {})
    assert found.session is not None
    credentials = found.session.get_credentials()
    assert credentials is not None
    assert credentials.token == SECRET


def test_what_the_connection_does_not_say_the_environment_does() -> None:
    environment = {"STATEMAINT_S3_SSE": "AES256", "STATEMAINT_S3_ENDPOINT": "http://other:1"}
    found = s3_options(connection(login="key", password=SECRET), environment)
    assert found.session is not None
    assert found == S3Options(endpoint="http://other:1", sse="AES256", session=found.session)


def test_the_connections_endpoint_wins() -> None:
    environment = {"STATEMAINT_S3_ENDPOINT": "http://other:1"}
    extra = {"endpoint_url": "http://store:9000"}
    assert s3_options(connection(extra=extra), environment).endpoint == "http://store:9000"


def test_another_type_of_connection_is_refused() -> None:
    assert refused(conn_type="http", password=SECRET) == (
        "the Airflow connection lake is of type 'http'; S3 takes type 'aws'"
    )


def test_a_setting_that_we_would_have_to_ignore_is_refused() -> None:
    said = refused(login="key", password=SECRET, extra={"role_arn": SECRET})
    assert said.startswith("the Airflow connection lake: the extra 'role_arn' is not supported")


def test_half_a_pair_of_keys_is_refused() -> None:
    assert "only one of access key and secret" in refused(login="key")
    assert "only one of access key and secret" in refused(password=SECRET)


def test_an_extra_that_is_no_object_is_refused() -> None:
    for extra in (f'["{SECRET}"]', f"{{{SECRET}"):
        assert refused(extra=extra) == "the Airflow connection lake: its extra is not a JSON object"


def test_an_extra_of_another_kind_is_refused() -> None:
    assert refused(extra={"region_name": [SECRET]}).endswith("'region_name' must be text")


def test_an_endpoint_that_cannot_be_meant_is_refused_without_being_shown() -> None:
    said = refused(extra={"endpoint_url": f"http://user:{SECRET}@host"})
    assert said.startswith("the Airflow connection lake: endpoint_url must be http(s)://")


def test_a_profile_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    assert "none-such" in refused(extra={"profile_name": "none-such"})


def test_a_connection_that_is_not_defined_is_named() -> None:
    with pytest.raises(ConfigError, match="connection none_such is not defined, or not for"):
        open_checkpoint("s3://bucket/checkpoint", "none_such")


def test_without_a_connection_the_address_says_it_all(tmp_path: Path) -> None:
    assert isinstance(open_checkpoint(str(tmp_path), None), LocalStorage)


def test_tasks_maintain_what_only_the_connection_reaches(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    given = connection(
        login=place.access_key,
        password=place.secret_key,
        extra={"endpoint_url": place.url, "region_name": "us-east-1"},
    )
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", given.as_json())
    address = place.storage().root
    upload(place, neglected(tmp_path / "before"), address)
    settings = QuerySettings("hourly", address, POLICY, connection="lake")
    planned = plan_query(settings, Options())
    assert planned.failure is None
    for bundle in planned.bundles:
        assert work_on(settings, bundle, Options(), run="manual__1").failure is None
    download(place, address, tmp_path / "after")
    assert [newest[-1] for newest in snapshots(tmp_path / "after").values()] == [TARGET] * 4


@pytest.mark.airflow
@pytest.mark.slow
def test_airflow_hands_its_connection_to_tasks_and_to_the_page(
    scene: Scene, tmp_path: Path
) -> None:
    scene.s3.client.create_bucket(Bucket="lake")
    upload(scene.s3, neglected(tmp_path / "before"), "s3://lake/checkpoint")
    state = "/statemaint/dags/statemaint__lake/state"
    refused = scene.admin.page(state)
    assert refused.status == 409
    assert "the Airflow connection the_lake is not defined" in refused.body
    extra = json.dumps({"endpoint_url": scene.s3.url, "region_name": "us-east-1"})
    fields = {"login": scene.s3.access_key, "password": scene.s3.secret_key, "extra": extra}
    body = {"connection_id": "the_lake", "conn_type": "aws", **fields}
    scene.admin.post("/api/v2/connections", body)
    ended = scene.run("lake")
    assert ended.state == "success"
    assert scene.s3.secret_key not in "".join(ended.log(one) for one in ended.states)
    download(scene.s3, "s3://lake/checkpoint", tmp_path / "after")
    assert [one[-1] for one in snapshots(tmp_path / "after").values()] == [TARGET] * 4
    assert len(scene.admin.get(state)["stores"]) == 4


def test_a_connection_of_our_type_makes_the_hook_of_a_checkpoint(tmp_path: Path) -> None:
    found: Any = connection(conn_type="statemaint")
    assert found.get_hook().connection == "lake"
    with pytest.raises(ConfigError, match="the hook has no checkpoint"):
        found.get_hook().get_conn()
    hook = found.get_hook(hook_params={"checkpoint": str(tmp_path)})
    assert (hook.checkpoint, hook.connection) == (str(tmp_path), "lake")


def test_a_connection_of_our_type_is_tested_against_its_server(place: Place) -> None:
    keys = {"conn_type": "statemaint", "login": place.access_key, "password": SECRET}
    place.bucket()
    good = connection(**keys, extra={"endpoint_url": place.url, "region_name": "us-east-1"})
    accepted, answer = good.test_connection()
    assert accepted, answer
    assert re.fullmatch(rf"{place.url} accepts the keys, which see \d+ buckets?", answer)
    nowhere = connection(**keys, extra={"endpoint_url": "http://127.0.0.1:1"})
    assert nowhere.test_connection() == (
        False,
        "STORAGE: http://127.0.0.1:1: the S3 endpoint cannot be reached (EndpointConnectionError)",
    )
    half = connection(conn_type="statemaint", login="key")
    refused, why = half.test_connection()
    assert not refused
    assert why.startswith("CONFIG: the Airflow connection lake: has only one of access key and")


@pytest.mark.airflow
@pytest.mark.slow
def test_airflows_form_tests_a_connection_of_our_type(scene: Scene) -> None:
    extra = json.dumps({"endpoint_url": scene.s3.url, "region_name": "us-east-1"})
    fields = {"login": scene.s3.access_key, "password": scene.s3.secret_key, "extra": extra}
    body = {"connection_id": "another_lake", "conn_type": "statemaint", **fields}
    tested = scene.admin.post("/api/v2/connections/test", body)
    assert tested["status"], tested
    assert tested["message"].startswith(f"{scene.s3.url} accepts the keys")


def upload(place: Place, folder: Path, address: str) -> None:
    storage = place.storage(address)
    for file in folder.rglob("*"):
        if file.is_file():
            storage.write(str(file.relative_to(folder)), [file.read_bytes()])


def download(place: Place, address: str, folder: Path) -> None:
    storage = place.storage(address)
    for entry in storage.list("state"):
        file = folder / entry.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(storage.read(entry.path))
