"""An HTTP proxy in front of a server of S3, which breaks what it is told to break."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date"})


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came in."""

    method: str
    target: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answers by itself; the server never hears of the request."""

    status: int
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Half:
    """Answers by itself, as Amazon refuses, and breaks the connection within the body."""

    status: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Passes the answer on, but breaks the connection after so many bytes of its body."""

    after: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Has the server carry the request out, and breaks the connection without an answer."""


@dataclass(frozen=True, slots=True)
class Then:
    """Passes the request on once something else was done."""

    do: Callable[[], object]


Fault = Answer | Half | Cut | Lost | Then


def error(code: str, message: str = "") -> bytes:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


@dataclass(slots=True)
class _Rule:
    method: str
    holds: Callable[[Seen], bool]
    fault: Fault
    left: int
    used: bool = False


@dataclass(slots=True)
class FaultProxy:
    """The proxy: where it is, what it saw, and what it is told to do."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    _rules: list[_Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(
        self,
        method: str,
        fault: Fault,
        *,
        times: int = 1,
        when: Callable[[Seen], bool] = lambda _: True,
    ) -> None:
        """Breaks the next requests of a method for which something holds."""
        self._rules.append(_Rule(method, when, fault, times))

    def hide(self, header: str) -> None:
        """Lets no request's header of that name through: the server does not know it."""
        self.hidden.add(header.lower())

    def count(self, method: str) -> int:
        return sum(seen.method == method for seen in self.seen)

    @property
    def used(self) -> int:
        """Returns of how many calls of `fail` at least one request was broken."""
        return sum(rule.used for rule in self._rules)

    def meet(self, seen: Seen) -> Fault | None:
        """Notes a request, and returns what is to go wrong with it."""
        with self._lock:
            self.seen.append(seen)
            for rule in self._rules:
                if rule.left and rule.method == seen.method and rule.holds(seen):
                    rule.left, rule.used = rule.left - 1, True
                    return rule.fault
            return None


def about(part: str) -> Callable[[Seen], bool]:
    """Returns the filter of requests with a part in their targets."""
    return lambda seen: part in seen.target


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """Runs a proxy for the length of a `with` block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.upstream = urlsplit(upstream).netloc
    server.proxy = FaultProxy(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    upstream: str
    proxy: FaultProxy
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Says nothing of connections that the other side dropped."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Says nothing of each request."""

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.proxy.meet(Seen(self.command, self.path, dict(self.headers)))
        if isinstance(fault, Answer):
            self._reply(fault.status, [("Content-Type", "application/xml")], fault.body, None)
            return
        if isinstance(fault, Half):
            self.send_response(fault.status)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"20\r\n<Error>")
            self._break()
            return
        if isinstance(fault, Then):
            fault.do()
        status, headers, content = self._forward(body)
        if isinstance(fault, Lost):
            self._break()
            return
        self._reply(status, headers, content, fault.after if isinstance(fault, Cut) else None)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        hidden = self.server.proxy.hidden
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in hidden
        }
        headers.pop("Expect", None)
        connection = http.client.HTTPConnection(self.server.upstream)
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _reply(
        self, status: int, headers: list[tuple[str, str]], body: bytes, cut: int | None
    ) -> None:
        length = str(len(body))
        self.send_response(status)
        for name, value in headers:
            if name.lower() == "content-length":
                length = value  # of a HEAD too, which has no body
            elif name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self._break()

    def _break(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
