"""A proxy in front of a NameNode that breaks chosen calls of its clients.

    with ipc_proxy(port) as proxy:
        proxy.fail("rename2", "lost", about="/trash/", nth=2)     # of such calls from now on

`cut`: the connection ends before the call reaches the server. `lost`: it ends after the server has
carried the call out and before its answer arrives. A function is called right before the call is
passed on: it changes the server, so that the answer is the server's own. The function that it
returns, if any, is called when the answer has come.

Hadoop's client sends seven bytes, then frames of a length and a message; the name of the method is
in the message. Only calls of `ClientProtocol` are broken.
"""

import re
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Lock, Thread
from typing import Literal

Fault = Literal["cut", "lost"] | Callable[[], Callable[[], object] | None]
_PROTOCOL = rb"org\.apache\.hadoop\.hdfs\.protocol\.ClientProtocol"
_METHOD = re.compile(rb"\n.([A-Za-z0-9]+)\x12." + _PROTOCOL, re.DOTALL)
_HEADER = 7


@dataclass
class _Planned:
    method: str
    about: bytes
    left: int
    fault: Fault


@dataclass
class IpcProxy:
    """A running proxy.

    Attributes:
        behind: the port of the NameNode.
        port: where it listens.
    """

    behind: int
    port: int = 0
    _planned: list[_Planned] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def fail(self, method: str, fault: Fault, *, about: str = "", nth: int = 1) -> None:
        """Breaks the n-th call of a method from now on, of those whose message has some words."""
        with self._lock:
            self._planned.append(_Planned(method, about.encode(), nth, fault))

    @property
    def waits(self) -> bool:
        """Returns whether a call that was to fail has not come yet."""
        return bool(self._planned)

    def fault_of(self, message: bytes) -> Fault | None:
        """Returns what becomes of a message; `None` if it is passed on."""
        match = _METHOD.search(message[:500])
        method = match[1].decode() if match else ""
        with self._lock:
            for one in self._planned:
                if one.method == method and one.about in message:
                    one.left -= 1
                    if not one.left:
                        self._planned.remove(one)
                        return one.fault
        return None


@contextmanager
def ipc_proxy(behind: int) -> Iterator[IpcProxy]:
    """Runs a proxy in front of a port of this machine until the block ends."""
    proxy = IpcProxy(behind)

    class Connection(BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", behind)) as server:
                _pass_on(self.request, server, proxy)

    with _Server(("127.0.0.1", 0), Connection) as listening:
        proxy.port = listening.server_address[1]
        thread = Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            listening.shutdown()
            thread.join()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


def _pass_on(client: socket.socket, server: socket.socket, proxy: IpcProxy) -> None:
    then: list[Callable[[], object]] = []
    Thread(target=_answer, args=(server, client, then), daemon=True).start()
    with suppress(OSError):
        server.sendall(_exactly(client, _HEADER))
        while size := _exactly(client, 4):
            message = _exactly(client, *struct.unpack(">I", size))
            fault = proxy.fault_of(message)
            if fault == "cut":
                break
            if fault == "lost":
                then.append(partial(_end, client))
            elif callable(fault) and (mend := fault()):
                then.append(mend)
            server.sendall(size + message)
    _end(client, server)


def _answer(server: socket.socket, client: socket.socket, then: list[Callable[[], object]]) -> None:
    with suppress(OSError):
        while content := server.recv(1 << 16):
            while then:
                then.pop()()
            client.sendall(content)
    _end(client, server)


def _end(*ends: socket.socket) -> None:
    for one in ends:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _exactly(source: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size and (more := source.recv(size - len(content))):
        content += more
    return content if len(content) == size else b""
