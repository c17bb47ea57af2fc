"""A TCP proxy before PostgreSQL that can cut, freeze, delay, mute and refuse by name.

Connections are told apart by their ``application_name``, so that one part of a worker
can be hurt and the others left alone.
"""

import select
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from threading import Event, Lock, Thread
from typing import Any

_CHUNK = 65_536

# Time between two looks at the orders (seconds).
_TICK = 0.02


class Link:
    """One proxied connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.name = ""
        self.frozen = Event()
        self.muted = False
        self.delay = 0.0
        """Seconds by which everything comes later, each way."""
        self.swallowed = 0
        """Bytes of answers that were kept from a muted client."""

    def close(self) -> None:
        """Hang up on both ends."""
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


Address = str | tuple[str, int]


class Proxy:
    """Forwards to one server or more, each by a port, and does as it is told."""

    def __init__(self, *addresses: Address) -> None:
        self._doors = [
            (socket.create_server(("127.0.0.1", 0)), each) for each in addresses
        ]
        self.ports: list[int] = [door.getsockname()[1] for door, _ in self._doors]
        self._lock = Lock()
        self._links: list[Link] = []
        self._refused: dict[str, bytes] = {}
        self._closing = Event()
        self.half_open = Event()
        """While set, new connections are accepted and get no answer."""
        self.refusals = 0
        self._threads: list[Thread] = []
        for door in self._doors:
            self._start(self._accept, *door)

    @property
    def port(self) -> int:
        """The port of the first server."""
        return self.ports[0]

    # --- orders -----------------------------------------------------------------------

    def links(self, name: str = "") -> list[Link]:
        """Return the open connections whose application's name starts so."""
        with self._lock:
            return [link for link in self._links if link.name.startswith(name)]

    def cut(self, name: str = "") -> int:
        """Hang up on connections; return on how many."""
        links = self.links(name)
        for link in links:
            self._forget(link)
        return len(links)

    def freeze(self, name: str = "") -> int:
        """Forward nothing more, and say nothing; return on how many."""
        links = self.links(name)
        for link in links:
            link.frozen.set()
        return len(links)

    def mute(self, name: str) -> list[Link]:
        """Let orders through to the server, but no answers back."""
        links = self.links(name)
        for link in links:
            link.muted = True
        return links

    def delay(self, seconds: float, name: str = "") -> int:
        """Forward later by so much; return on how many."""
        links = self.links(name)
        for link in links:
            link.delay = seconds
        return len(links)

    def heal(self) -> None:
        """Hang up on what is frozen or muted; hurry and let in what comes now."""
        self.half_open.clear()
        self.allow()
        for link in self.links():
            link.delay = 0.0
            if link.frozen.is_set() or link.muted:
                self._forget(link)

    def refuse(self, name: str = "", sqlstate: str | None = None) -> None:
        """Refuse new connections: hang up, or have a server's reason."""
        self._refused[name] = _fatal(sqlstate) if sqlstate else b""

    def allow(self) -> None:
        """Refuse nobody any more."""
        self._refused.clear()

    def close(self) -> None:
        """Stop, and hang up on all."""
        self._closing.set()
        for door, _ in self._doors:
            door.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    # --- work -------------------------------------------------------------------------

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = Thread(target=target, args=args, name="proxy", daemon=True)
        with self._lock:
            self._threads = [t for t in self._threads if t.is_alive()] + [thread]
            thread.start()

    def _accept(self, door: socket.socket, address: Address) -> None:
        door.settimeout(_TICK)
        while not self._closing.is_set():
            try:
                client, _ = door.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self._start(self._serve, client, address)

    def _serve(self, client: socket.socket, address: Address) -> None:
        client.settimeout(5)
        try:
            startup = _read_startup(client)
        except OSError:
            client.close()
            return
        name = _application_name(startup)
        for refused, reason in list(self._refused.items()):
            if name.startswith(refused):
                self.refusals += 1
                with suppress(OSError):
                    client.sendall(reason)
                client.close()
                return
        try:
            link = Link(client, _connected(address))
        except OSError:
            # The server is away, and so is what stands before it.
            client.close()
            return
        link.name = name
        if self.half_open.is_set():
            link.frozen.set()
        with self._lock:
            self._links.append(link)
        try:
            link.server.sendall(startup)
            while not self._closing.is_set() and self._forward(link):
                pass
        except (OSError, ValueError):
            pass
        finally:
            self._forget(link)

    def _forward(self, link: Link) -> bool:
        if link.frozen.is_set():
            self._closing.wait(_TICK)
            return link.client.fileno() >= 0
        ready, _, _ = select.select([link.client, link.server], [], [], _TICK)
        for source in ready:
            if link.frozen.is_set():
                break
            data = source.recv(_CHUNK)
            if not data:
                return False
            self._closing.wait(link.delay)
            if source is link.client:
                link.server.sendall(data)
            elif link.muted:
                link.swallowed += len(data)
            else:
                link.client.sendall(data)
        return True

    def _forget(self, link: Link) -> None:
        with self._lock:
            if link in self._links:
                self._links.remove(link)
        link.close()


def _connected(address: Address) -> socket.socket:
    if not isinstance(address, str):
        return socket.create_connection(address)
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    return server


def _read_startup(client: socket.socket) -> bytes:
    head = _read_exactly(client, 4)
    return head + _read_exactly(client, struct.unpack("!i", head)[0] - 4)


def _read_exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = client.recv(size - len(data))
        if not chunk:
            raise ConnectionError("closed before the startup message")
        data += chunk
    return data


def _application_name(startup: bytes) -> str:
    fields = startup[8:].split(b"\0")
    pairs = dict(zip(fields[::2], fields[1::2], strict=False))
    return pairs.get(b"application_name", b"").decode()


def _fatal(sqlstate: str) -> bytes:
    fields = f"SFATAL\0VFATAL\0C{sqlstate}\0Mrefused by the proxy\0\0".encode()
    return b"E" + struct.pack("!i", len(fields) + 4) + fields


@contextmanager
def proxied(settings_dict: dict[str, Any]) -> Iterator[tuple[Proxy, dict[str, Any]]]:
    """Put a proxy before a database; yield it, and settings that go through it.

    Of several hosts, as for a failover, each has a port of the proxy.
    """
    options = dict(settings_dict.get("OPTIONS", {}))
    named = (options.pop("host", ""), options.pop("port", ""))
    proxy = Proxy(*_addresses(*named, settings_dict))
    options |= {"sslmode": "disable", "gssencmode": "disable"}
    changed = {
        "HOST": ",".join("127.0.0.1" for _ in proxy.ports),
        "PORT": ",".join(map(str, proxy.ports)),
        "OPTIONS": options,
    }
    try:
        yield proxy, {**settings_dict, **changed}
    finally:
        proxy.close()


def _addresses(
    hosts: str, ports: str, settings_dict: dict[str, Any]
) -> Iterator[Address]:
    # libpq's own defaults come last.
    hosts = hosts or settings_dict["HOST"] or "/tmp"  # noqa: S108
    ports = str(ports or settings_dict["PORT"] or 5432)
    for host, port in zip(hosts.split(","), cycle(ports.split(","))):
        is_socket = host.startswith("/")
        yield f"{host}/.s.PGSQL.{port}" if is_socket else (host, int(port))
