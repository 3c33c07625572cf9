"""A small client of Airflow's API, built on the standard library only."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from statemaint.errors import StatemaintError
from statemaint.workers import nothing

_POLL_SECONDS = 0.3
_TIMEOUT_SECONDS = 120.0
_FINAL = ("success", "failed")
# The error of a request that SQLite refused because other writers kept it waiting for too long.
_ATTEMPTS, _BUSY = 5, "Database error"


class ApiError(StatemaintError):
    """Airflow refused a request, or its answer is not JSON."""

    code = "AIRFLOW_API"

    def __init__(self, path: str, status: int, body: str) -> None:
        super().__init__(f"{path}: Airflow answered {status}: {body[:500]}")
        self.status = status


class WaitedTooLongError(StatemaintError):
    """An expected event did not happen in time."""

    code = "WAITED_TOO_LONG"


@dataclass(frozen=True, slots=True)
class TaskInstance:
    """One task of one run."""

    task: str
    map_index: int  # the instance of a mapped task; -1 when the task is not mapped
    label: str | None  # the name that the UI shows for a mapped instance
    state: str | None  # success, failed, skipped, upstream_failed, ...; `None` before it begins
    tries: int  # the number of attempts


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a page."""

    status: int
    headers: Mapping[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class Client:
    """A client of an Airflow, whose URL ends without a slash; anonymous without a token.

    `check` is called now and then while the client waits, and raises when waiting is in vain.
    """

    url: str
    token: str | None = None
    check: Callable[[], None] = nothing

    @classmethod
    def login(cls, url: str, user: str, password: str) -> "Client":
        body = {"username": user, "password": password}
        return cls(url, cls(url).post("/auth/token", body)["access_token"])

    def page(self, path: str, *, cookie: bool = False) -> Answer:
        """Returns the answer of a path, including refusals.

        With `cookie` the token is sent as a browser does, instead of in a header.
        """
        return self._send("GET", path, self._credentials(cookie=cookie))

    def get(self, path: str) -> Any:
        return self._json("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json("PATCH", path, body)

    def import_errors(self) -> list[str]:
        errors = self.get("/api/v2/importErrors")["import_errors"]
        return [one["stack_trace"] for one in errors]

    def wait_for_dag(self, dag: str, *, seconds: float = 90.0) -> None:
        """Waits for a DAG that Airflow has parsed, and has not deactivated since."""
        self._wait(lambda: self._is_active(dag), dag, seconds)

    def unpause(self, dag: str) -> None:
        self.patch(f"/api/v2/dags/{_quoted(dag)}", {"is_paused": False})

    def trigger(self, dag: str, conf: Mapping[str, Any] | None = None) -> str:
        """Starts a run, as the form does, and returns its id.

        Waits for a DAG that Airflow has deactivated, as it does when the file was not parsed in
        time or its result could not be written: the next parse brings it back.
        """
        self.wait_for_dag(dag)
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self.post(f"/api/v2/dags/{_quoted(dag)}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag: str, run: str) -> str:
        return str(self.get(_run_path(dag, run))["state"])

    def wait_for_run(self, dag: str, run: str, *, seconds: float = 400.0) -> str:
        self._wait(lambda: self.run_state(dag, run) in _FINAL, f"{dag} {run}", seconds)
        return self.run_state(dag, run)

    def task_instances(self, dag: str, run: str) -> list[TaskInstance]:
        """Returns all tasks of a run, by task and map index."""
        listed = self.get(f"{_run_path(dag, run)}/taskInstances?limit=1000")["task_instances"]
        names = ("task_id", "map_index", "rendered_map_index", "state", "try_number")
        instances = [TaskInstance(*(instance[name] for name in names)) for instance in listed]
        return sorted(instances, key=lambda instance: (instance.task, instance.map_index))

    def log(self, dag: str, run: str, instance: TaskInstance) -> str:
        """Returns the log of a task's last attempt, one event per line, errors with their text."""
        path = f"{_run_path(dag, run)}/taskInstances/{_quoted(instance.task)}/logs/{instance.tries}"
        events = self.get(f"{path}?map_index={instance.map_index}&full_content=true")["content"]
        return "\n".join(_log_line(one) for one in events)

    def _is_active(self, dag: str) -> bool:
        answer = self.page(f"/api/v2/dags/{_quoted(dag)}")
        return answer.status == HTTPStatus.OK and not json.loads(answer.body)["is_stale"]

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise WaitedTooLongError(f"{what} was not ready after {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        for _ in range(_ATTEMPTS):
            answer = self._send(method, path, {**headers, **self._credentials()}, content)
            if answer.status != HTTPStatus.INTERNAL_SERVER_ERROR or _BUSY not in answer.body:
                break
            time.sleep(_POLL_SECONDS)
        try:
            document = json.loads(answer.body)
        except ValueError:
            raise ApiError(path, answer.status, answer.body) from None
        if answer.status >= 400:  # noqa: PLR2004 -- where HTTP's errors begin
            raise ApiError(path, answer.status, answer.body)
        return document

    def _credentials(self, *, cookie: bool = False) -> dict[str, str]:
        if self.token is None:
            return {}
        header, scheme = ("Cookie", "_token=") if cookie else ("Authorization", "Bearer ")
        return {header: f"{scheme}{self.token}"}

    def _send(
        self, method: str, path: str, headers: dict[str, str], content: bytes | None = None
    ) -> Answer:
        request = urllib.request.Request(  # noqa: S310 -- the address of an Airflow that we started
            self.url + path, data=content, headers=headers, method=method
        )
        # Never through a proxy: this Airflow is on this machine, whatever the environment sets.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read().decode())


def _run_path(dag: str, run: str) -> str:
    return f"/api/v2/dags/{_quoted(dag)}/dagRuns/{_quoted(run)}"


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _log_line(event: Mapping[str, Any] | str) -> str:
    if isinstance(event, str):
        return event
    errors = event.get("error_detail") or ()
    texts = [f"{one['exc_type']}: {one['exc_value']}" for one in errors]
    return " | ".join([str(event.get("event", "")), *texts])
