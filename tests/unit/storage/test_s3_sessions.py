"""What the storages of a process share of boto3, and what each has of its own."""

from statemaint.storage.s3.bucket import _session


def test_sessions_share_the_descriptions_of_services_and_nothing_else() -> None:
    one, other = _session()._session, _session()._session
    assert one is not other
    assert one.get_component("data_loader") is other.get_component("data_loader")
    for name in ("credential_provider", "event_emitter", "response_parser_factory"):
        assert one.get_component(name) is not other.get_component(name)


def test_a_shared_description_does_not_grow_with_each_session() -> None:
    paths = [len(_session()._session.get_component("data_loader").search_paths) for _ in range(3)]
    assert len(set(paths)) == 1
