"""`verify` checks every file that a retained version needs; `digest` condenses the rows."""

from collections.abc import Iterable
from typing import Any

import click
from rich.text import Text

from statemaint.audit import Verification, digest_stores, verify
from statemaint.cli import options as flags
from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, Row, of_many
from statemaint.cli.output import Json, end_with, print_json, settings
from statemaint.cli.progress import work_done
from statemaint.cli.tables import Column, number
from statemaint.cli.targets import Address
from statemaint.codec.integrity.digest import StateDigest
from statemaint.maintain.record import note_verification
from statemaint.model.ids import StoreId
from statemaint.model.verdict import Looked
from statemaint.report.to_json import fields_json, findings_json, id_json, verdict_json
from statemaint.storage import Storage, open_storage
from statemaint.wording import counted
from statemaint.workers import Workers


@click.command("verify")
@flags.uri
@click.option(
    "--deep",
    is_flag=True,
    help="Decode every file, compare every snapshot, and check every row of the newest version.",
)
@click.option(
    "--sample",
    type=flags.SHARE,
    metavar="N/T",
    help="Check only the N-th of T shares of the partitions; T runs cover all of them.",
)
@flags.publish_flag
@flags.workers_flag
@flags.as_json_or_lines
@of_many(lambda: FLEET)
def verify_verb(uri: Address, *, deep: bool, publish: bool, **options: Any) -> None:
    """Check every file that a retained version of any store needs.

    Reads only the beginning and the end of each file, and trusts snapshots that an attestation
    covers. A change inside a file is found by --deep only.
    """
    storage = open_storage(uri)
    with flags.publishing(uri, storage, wanted=publish), work_done("verifying"):
        verification = _verified(storage, deep=deep, **options)
    if settings().as_json:
        print_json(verify_json(verification), lines="findings")
    else:
        _print_table(verification, deep=deep)
    end_with(verification.findings)


def _verified(storage: Storage, **options: Any) -> Verification:
    verification = verify(storage, **options)
    note_verification(
        storage,
        {finding.code.value for finding in verification.findings},
        healthy=verification.healthy,
        verdict=verification.verdict,
        looked=verification.looked,
        sampled=options["sample"] is not None,
    )
    return verification


def _result_json(verification: Verification) -> Json:
    verdict = verdict_json(verification.verdict, verification.looked)
    return {**verdict, **fields_json(verification, "healthy versions_checked versions")}


def verify_json(verification: Verification) -> Json:
    return {
        "checkpoint": verification.checkpoint.root,
        **_result_json(verification),
        "findings": findings_json(verification.findings),
    }


def _print_table(verification: Verification, *, deep: bool) -> None:
    passed, retained = verification.versions_checked, verification.versions
    of_all = f"{passed:,} of " if passed < retained or not verification.healthy else ""
    does = "checked" if verification.healthy else "passed"
    where = f"in {counted(len(verification.checkpoint.stores), 'store')}, counted in each"
    depth = "" if deep else "; files not read whole (see --deep)"
    rest = f": {of_all}{counted(retained, 'version')} {does} {where}{depth}"
    tables.print_line(Text.assemble(tables.judged(verification.verdict), rest))


def _row(uri: str, *, publish: bool, **options: Any) -> Row:
    """Returns the row of one checkpoint in a fleet, which has no name to publish it by."""
    del publish
    verification = _verified(open_storage(uri), **options)
    stores = {"stores": len(verification.checkpoint.stores)}
    return {**_result_json(verification), **stores}, verification.findings


def _versions(row: Json) -> str:
    passed, retained = row["versions_checked"], row["versions"]
    return f"{passed:,}" if passed == retained else f"{passed:,} of {retained:,}"


FLEET: Fleet = Fleet(
    columns=(
        number("stores", lambda row: f"{row['stores']:,}", 1),
        number("versions", _versions, 2),
    ),
    read=_row,
    order=lambda row: row["versions_checked"] - row["versions"],
    totals=lambda rows: counted(sum(row["stores"] for row in rows), "store"),
    looked=lambda options: Looked.ROWS if options["deep"] else Looked.ENDS,
)


@click.command("digest")
@flags.uri
@click.option("--version", "version", type=flags.POSITIVE, help="Default: the newest.")
@flags.workers_flag
@flags.as_json_or_lines
def digest_verb(uri: str, *, version: int | None, workers: Workers) -> None:
    """Print the row count and an order-independent digest of each store at a version.

    Digests are keyed with the query's id: compare them between copies of one checkpoint, not
    between queries.
    """
    storage = open_storage(uri)
    with work_done("reading"):
        at, digests = digest_stores(storage, version=version, workers=workers)
    if settings().as_json:
        print_json({"checkpoint": storage.root, **digest_json(at, digests)}, lines="stores")
        return
    ordered = [*digests]
    if len(ordered) > tables.MOST_ROWS and not settings().everything:
        ordered.sort(key=lambda pair: -pair[1].rows)  # the largest are shown
    rows = counted(sum(digest.rows for _, digest in ordered), "row")
    tables.print_line(f"version {at}: {rows} in {counted(len(ordered), 'store')}")
    tables.print_first(_DIGESTS, ordered, "store")


_DIGESTS: tuple[Column[tuple[StoreId, StateDigest]], ...] = (
    Column("store", lambda pair: tables.short(pair[0])),
    number("rows", lambda pair: f"{pair[1].rows:,}"),
    Column("digest", lambda pair: pair[1].digest),
)


def digest_json(version: int, digests: Iterable[tuple[StoreId, StateDigest]]) -> Json:
    stores = [{**id_json(store), **fields_json(state, "rows digest")} for store, state in digests]
    return {"version": version, "stores": stores}
