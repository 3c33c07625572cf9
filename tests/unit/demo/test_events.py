"""The demo's input: the same seed gives the same bytes, whatever else is generated."""

import json
from pathlib import Path

import pytest

from tools.demo.events import ORDERS_PER_HOUR, orders, payments, write_hours


def read_files(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    write_hours(tmp_path / "a", hours=range(3), seed=7)
    write_hours(tmp_path / "b", hours=range(3), seed=7)
    assert read_files(tmp_path / "a") == read_files(tmp_path / "b")


def test_another_seed_gives_other_rows() -> None:
    assert orders(7, 3) != orders(8, 3)
    assert payments(7, 3) != payments(8, 3)


def test_an_hour_does_not_depend_on_how_many_are_written(tmp_path: Path) -> None:
    write_hours(tmp_path / "one", hours=[5], seed=7)
    write_hours(tmp_path / "many", hours=range(9), seed=7)
    assert read_files(tmp_path / "one").items() <= read_files(tmp_path / "many").items()


def test_writes_one_file_of_json_lines_for_each_stream_and_hour(tmp_path: Path) -> None:
    write_hours(tmp_path, hours=[0, 12], seed=7)
    assert set(read_files(tmp_path)) == {
        "orders/hour-0000.json",
        "orders/hour-0012.json",
        "payments/hour-0000.json",
        "payments/hour-0012.json",
    }
    lines = (tmp_path / "orders/hour-0012.json").read_text().splitlines()
    assert len(lines) == ORDERS_PER_HOUR
    assert set(json.loads(lines[0])) == {"order_id", "region", "amount_cents", "ordered_at"}


def test_no_order_is_paid_twice() -> None:
    paid = [payment.paid_order_id for hour in range(24) for payment in payments(7, hour)]
    assert len(paid) == len(set(paid))


def test_every_payment_belongs_to_an_order_of_an_earlier_or_the_same_hour() -> None:
    placed: set[str] = set()
    for hour in range(24):
        placed |= {order.order_id for order in orders(7, hour)}
        assert {payment.paid_order_id for payment in payments(7, hour)} <= placed


def test_the_longest_delay_loses_no_payment(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = [payments(7, hour) for hour in range(24)]
    monkeypatch.setattr("tools.demo.events._LONGEST_HOURS", 24)
    assert [payments(7, hour) for hour in range(24)] == searched


def test_some_orders_are_never_paid() -> None:
    paid = {payment.paid_order_id for hour in range(24) for payment in payments(7, hour)}
    unpaid = [order for order in orders(7, 0) if order.order_id not in paid]
    assert 0.05 < len(unpaid) / ORDERS_PER_HOUR < 0.3


def test_some_orders_are_paid_in_a_later_hour() -> None:
    assert any(payment.paid_order_id.startswith("0004-") for payment in payments(7, 6))


def test_some_orders_arrive_late() -> None:
    late = [order for order in orders(7, 6) if order.ordered_at < "2026-01-01T06:00:00Z"]
    hopeless = [order for order in late if order.ordered_at < "2026-01-01T05:00:00Z"]
    assert len(late) > len(hopeless) > 0
