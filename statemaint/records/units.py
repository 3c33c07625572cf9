"""The files of a run's units of work, which processes hand to each other; deleted when it ends.

_statemaint/units/<run>/work.json               the units, and what their tasks need to know
_statemaint/units/<run>/outcomes-<attempt>.json all outcomes of one attempt
_statemaint/units/<run>/<unit>/outcome.json     the outcome of one unit, once there is one
_statemaint/units/<run>/<unit>/_statemaint/lease/<number>.json   the holder of the unit
"""

import json
from typing import Any

from statemaint.model.ids import run_folder
from statemaint.storage import Storage

FOLDER = "_statemaint/units"


def work_path(run: str) -> str:
    return f"{FOLDER}/{run_folder(run)}/work.json"


def outcomes_path(run: str, attempt: int) -> str:
    return f"{FOLDER}/{run_folder(run)}/outcomes-{attempt}.json"


def unit_folder(run: str, unit: str) -> str:
    return f"{FOLDER}/{run_folder(run)}/{run_folder(unit)}"


def write_document(storage: Storage, path: str, document: object) -> None:
    storage.replace(path, [json.dumps(document).encode()])


def read_document(storage: Storage, path: str) -> Any:
    """Returns the content of a file.

    Raises:
        NotFoundError: when it does not exist: the run has ended.
        ValueError: when it is not JSON.
    """
    return json.loads(storage.read(path))
