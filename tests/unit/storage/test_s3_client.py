"""What the storages of a process share of botocore, and times in S3's answers."""

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.session import Session
from botocore.utils import parse_timestamp

from statemaint.storage.s3.client import parse_time, session_of

MOMENT = datetime(2026, 11, 23, 18, 5, 28, tzinfo=UTC)


def test_sessions_share_the_descriptions_of_services_and_nothing_else() -> None:
    one, other = session_of(None), session_of(boto3.Session())
    assert one is not other
    assert one.get_component("data_loader") is other.get_component("data_loader")
    for name in ("credential_provider", "event_emitter", "response_parser_factory"):
        assert one.get_component(name) is not other.get_component(name)


def test_a_shared_description_does_not_grow_with_each_session() -> None:
    inner = [session_of(None) for _ in range(3)]
    assert len({len(one.get_component("data_loader").search_paths) for one in inner}) == 1


def test_a_session_has_the_credentials_and_the_region_of_the_given_one() -> None:
    given = boto3.Session("access", "secret", region_name="eu-west-3")
    session = session_of(given)
    assert session.get_credentials() is given.get_credentials()
    assert session.get_config_variable("region") == "eu-west-3"


def test_a_session_has_the_profile_of_the_given_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path_factory.mktemp("aws") / "config"
    config.write_text("[default]\n[profile other]\nca_bundle = /other.pem\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "default")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    given = boto3.Session(profile_name="other")
    assert session_of(given).get_config_variable("ca_bundle") == "/other.pem"
    assert Session().get_config_variable("ca_bundle") is None


@pytest.mark.parametrize(
    "found",
    [
        "2026-11-23T18:05:28.000Z",
        "2026-11-23T18:05:28Z",
        "2026-11-23T18:05:28+00:00",
        "2026-11-23 18:05:28",
        "Mon, 23 Nov 2026 18:05:28 GMT",
        "Mon, 23 Nov 2026 18:05:28 +0000",
        "Monday, 23-Nov-26 18:05:28 GMT",
        "Mon Nov 23 18:05:28 2026 UTC",
        "1795457128",
        1795457128,
        1795457128.0,
    ],
)
def test_every_form_of_a_time_is_read_as_botocore_reads_it(found: Any) -> None:
    parsed = parse_time(found)
    expected = parse_timestamp(found)
    if expected.tzinfo is None:
        expected = expected.replace(tzinfo=UTC)
    assert parsed == expected == MOMENT


@pytest.mark.parametrize("found", ["", "never", "2026-13-01T00:00:00Z", "Mon, 99 Nov 2026"])
def test_what_is_no_time_is_an_error(found: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(found)
