"""The exporter's server: `/metrics`, and `/-/healthy` and `/-/ready` for probes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
    start_http_server,
)

from statemaint.errors import ConfigError
from statemaint.metrics.exporter import Exporter

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_METRICS = [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")]


@contextmanager
def serving(
    exporter: Exporter, host: str, port: int, *, certificate: str | None, key: str | None
) -> Iterator[int]:
    """Serves an exporter's page, before its first reading as well; yields the port.

    Raises:
        ConfigError: when the port cannot be used.
    """
    try:
        server, thread = start_http_server(
            port, host, CollectorRegistry(), certfile=certificate, keyfile=key
        )
    except OSError as error:
        raise ConfigError(f"{host}:{port}: {error.strerror or error}") from None
    server.set_app(app_of(exporter))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def app_of(exporter: Exporter) -> "WSGIApplication":
    """Returns the WSGI application that serves an exporter."""
    process = CollectorRegistry()
    ProcessCollector(registry=process)

    def metrics(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        zipped = "gzip" in environ.get("HTTP_ACCEPT_ENCODING", "")
        start("200 OK", [*_METRICS, *([("Content-Encoding", "gzip")] if zipped else [])])
        page, more = exporter.page, generate_latest(process)
        return page.zipped(more) if zipped else page.plain(more)

    def app(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path in ("/metrics", "/"):
            return metrics(environ, start)
        if path == "/-/healthy":
            status, text = "200 OK", "yes"
        elif path == "/-/ready" and exporter.ended is not None:
            status, text = "200 OK", f"yes: the last reading ended at {exporter.ended:.3f}"
        elif path == "/-/ready":
            status, text = "503 Service Unavailable", "no: the first reading has not ended"
        else:
            status, text = "404 Not Found", "there are /metrics, /-/healthy and /-/ready"
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return app
