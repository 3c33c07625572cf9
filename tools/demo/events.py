"""Orders and payments by seed and hour: the demo's input, the same bytes every time.

Every order has one *fate*, drawn from the seed and the hour in which the order arrives. Its payment
belongs to the hour in which the payment arrives. So hour N depends only on the seed and N, however
many hours are generated.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The start of hour 0."""

ORDERS_PER_HOUR = 240
REGIONS = ("Bergen", "Genoa", "Izmir", "Lagos", "Lima", "Osaka", "Perth", "Quito")

_HOUR = 3600
_PAID_SHARE = 0.85
# The longest delay of a payment plus that of its report, in whole hours.
_LONGEST_HOURS = 8


# Delays: of the draws below the first number, between the second and the third in seconds.
_Bands = Sequence[tuple[float, int, int]]
# From an event to its arrival: 7 % are late, 1 % hopelessly so.
_REPORTED: _Bands = ((0.92, 0, 90), (0.99, 90, 1500), (1, 5 * _HOUR, 5 * _HOUR))
# From an order to its payment: soon, an hour later, or after the two hours that count.
_PAID: _Bands = ((0.65, 0, 2400), (0.92, _HOUR, 2 * _HOUR), (1, 2 * _HOUR + 1, 5 * _HOUR // 2))


@dataclass(frozen=True, slots=True)
class Order:
    """One order, as the shop reports it; the amount in cents, the time in UTC."""

    order_id: str
    region: str
    amount_cents: int
    ordered_at: str


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment, as the bank reports it; the amount in cents, the time in UTC."""

    paid_order_id: str
    paid_cents: int
    paid_at: str


# An order, its payment, and the hour in which the payment arrives.
_Fate = tuple[Order, Payment | None, int]


def orders(seed: int, hour: int) -> tuple[Order, ...]:
    return tuple(order for order, _, _ in _fates(seed, hour))


def payments(seed: int, hour: int) -> tuple[Payment, ...]:
    first = max(0, hour - _LONGEST_HOURS)
    fates = (fate for h in range(first, hour + 1) for fate in _fates(seed, h))
    return tuple(payment for _, payment, arrives in fates if payment and arrives == hour)


def write_hours(directory: Path, *, hours: Iterable[int], seed: int) -> None:
    """Writes `orders/hour-NNNN.json` and `payments/hour-NNNN.json` below `directory`.

    A reader sees a complete file or none, even after a crash.
    """
    for hour in hours:
        name = f"hour-{hour:04d}.json"
        write_atomically(directory / "orders" / name, map(_json, orders(seed, hour)))
        write_atomically(directory / "payments" / name, map(_json, payments(seed, hour)))


def _fates(seed: int, hour: int) -> Iterator[_Fate]:
    # Only `random()` guarantees the same numbers in every Python version.
    draw = random.Random(f"{seed}/{hour}").random  # noqa: S311 - sample data, no secret
    for number in range(ORDERS_PER_HOUR):
        arrives = hour * _HOUR + int(_HOUR * (number + draw()) / ORDERS_PER_HOUR)
        yield _fate(f"{hour:04d}-{number:03d}", arrives, draw)


def _fate(order_id: str, arrives: int, draw: Callable[[], float]) -> _Fate:
    ordered = arrives - _delay(_REPORTED, draw)
    region = REGIONS[int(draw() * len(REGIONS))]
    cents = 500 + int(draw() * 20_000)
    paid = ordered + _delay(_PAID, draw)
    reported = max(arrives, paid + _delay(_REPORTED, draw))
    payment = Payment(order_id, cents, _timestamp(paid)) if draw() < _PAID_SHARE else None
    return Order(order_id, region, cents, _timestamp(ordered)), payment, reported // _HOUR


def _delay(bands: _Bands, draw: Callable[[], float]) -> int:
    kind, share = draw(), draw()
    _, least, most = next(band for band in bands if kind < band[0])
    return least + int(share * (most - least))


def _timestamp(second: int) -> str:
    return (EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(row: Order | Payment) -> str:
    return json.dumps(asdict(row))


def write_atomically(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name with a leading dot is invisible to Spark's file source.
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text("".join(f"{line}\n" for line in lines))
    temporary.replace(path)
