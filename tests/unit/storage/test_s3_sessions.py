"""What the storages of a process share of boto3, and what each has of its own."""

import boto3

from statemaint.storage.s3.bucket import _sharing


def test_sessions_share_the_descriptions_of_services_and_nothing_else() -> None:
    one, other = (_sharing(boto3.Session())._session for _ in range(2))
    assert one is not other
    assert one.get_component("data_loader") is other.get_component("data_loader")
    for name in ("credential_provider", "event_emitter", "response_parser_factory"):
        assert one.get_component(name) is not other.get_component(name)


def test_a_shared_description_does_not_grow_with_each_session() -> None:
    inner = [_sharing(boto3.Session())._session for _ in range(3)]
    assert len({len(one.get_component("data_loader").search_paths) for one in inner}) == 1
