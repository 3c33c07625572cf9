"""Whether the query is still where it was when a run was planned."""

from statemaint.errors import NotFoundError, Superseded
from statemaint.listing import Entry
from statemaint.storage import Storage


def newest_commit(storage: Storage) -> Entry | None:
    """Returns the newest entry of the commit log; `None` where there is none.

    Raises:
        StorageError: when the storage fails.
    """
    found = {int(one.name): one for one in storage.list("commits") if one.name.isdecimal()}
    return found[max(found)] if found else None


def must_stand(storage: Storage, commit: Entry | None) -> None:
    """Makes sure that nobody has rewound the query since a run was planned; one request.

    A query that was rewound writes files again under names that the plan deletes.

    Args:
        storage: where the checkpoint lives.
        commit: the newest entry of the commit log then; `None` where there was none.

    Raises:
        Superseded: when the entry was written again, or is gone and no newer ones took its place.
        StorageError: when the storage fails.
    """
    if commit is None:
        return
    try:
        found = storage.stat(commit.path)
    except NotFoundError as error:
        if not _purged(storage, int(commit.name)):
            why = "was removed after the run was planned: the query was rewound"
            raise Superseded(commit.path, why) from error
        return
    if found != commit:
        raise Superseded(
            commit.path, "was written again after the run was planned: the query was rewound"
        )


def _purged(storage: Storage, batch: int) -> bool:
    """Returns whether the query has gone on so far that it has removed an entry itself."""
    names = (entry.name for entry in storage.list("commits"))
    return min((int(one) for one in names if one.isdecimal()), default=-1) > batch
