"""The hosts of one run talk: they pass small things on, and notice when one of them is gone.

Host 0 is connected with each of the others (`meeting.py`). Frames go both ways: data, a beat
every few seconds, a farewell. Nothing that comes in is executed: data is JSON, or numbers whose shape the receiver knows.

JAX has a heartbeat of its own, but it ends a process with a stack trace, and a process that waits for the numbers of a dead
one may hear of nothing before. So a thread here listens, and ends the process with a line that says which host was lost.
"""

import contextlib
import json
import os
import queue
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

from gtrxl.runs.errors import RunError

LOST = 4
"""The exit code of a process that goes because another host did."""
BEAT = 2.0
"""Seconds between two beats."""
SILENCE = 60.0
"""Seconds without a sign of life after which a host counts as lost."""
GRACE = 15.0
"""Seconds that a host may go on for after another has left the run: it may be about to leave for the same reason."""

HEADER = struct.Struct(">cQ")
DATA, ALIVE, LEAVING, ALL_LEAVE, ENDING = b"d", b"a", b"l", b"g", b"e"
FIRST = 1 << 20
"""Bytes that a stranger's first frame may have."""

Trouble = Literal["its process ended", "its connection broke"]


class Link:
    """A connection to one host."""

    def __init__(self, connection: socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.inbox: queue.Queue[bytes] = queue.Queue()
        self.heard = time.monotonic()
        self.left: float | None = None
        """When it said farewell."""
        self.all_left = False
        """Host 0 has heard the farewell of all."""
        self.gone: Trouble | None = None
        self._writing = threading.Lock()
        self._pending = bytearray()

    def send(self, kind: bytes, payload: bytes | memoryview = b"") -> None:
        """Puts one frame on its way; to a host that is gone, nowhere."""
        try:
            with self._writing:
                self.connection.sendall(HEADER.pack(kind, len(payload)))
                self.connection.sendall(payload)
        except OSError:
            self.gone = self.gone or "its connection broke"

    def beat(self) -> None:
        """A sign of life, unless there is one already: a frame on its way."""
        if self._writing.acquire(blocking=False):
            try:
                self.connection.sendall(HEADER.pack(ALIVE, 0))
            except OSError:
                self.gone = self.gone or "its connection broke"
            finally:
                self._writing.release()

    def listen(self, most: int | None = None) -> list[tuple[bytes, bytes]]:
        """The frames that are whole after taking in what has arrived; waits for something to arrive."""
        try:
            arrived = self.connection.recv(1 << 20)
        except OSError:
            self.gone = "its connection broke"
            return []
        if not arrived:
            self.gone = "its process ended"
            return []
        self.heard = time.monotonic()
        self._pending += arrived
        frames = []
        while len(self._pending) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._pending)
            if most is not None and length > most:
                self.gone = "its connection broke"
                return []
            if len(self._pending) < HEADER.size + length:
                break
            frames.append((kind, bytes(self._pending[HEADER.size : HEADER.size + length])))
            del self._pending[: HEADER.size + length]
        return frames

    def first(self, *, until: float) -> Any:
        """The first data, as JSON, of a host that has just come or been come to; None if none arrives in time."""
        while self.gone is None and (left := until - time.monotonic()) > 0:
            if select.select([self.connection], [], [], left)[0]:
                for kind, payload in self.listen(FIRST):
                    with contextlib.suppress(ValueError):
                        return json.loads(payload) if kind == DATA else None
                    return None
        return None

    def is_gone(self) -> bool:
        """Whether the other side has hung up; for the time before frames are listened to."""
        if self.gone is None and select.select([self.connection], [], [], 0)[0]:
            self.listen(FIRST)
        return self.gone is not None

    def close(self) -> None:
        """No more."""
        self.connection.close()


class Peers:
    """This host's connections to the others: of host 0 to all, of all to host 0."""

    def __init__(self, host: int, num_hosts: int, links: dict[int, Link]):
        self.host = host
        self.count = num_hosts
        self.links = links
        for link in links.values():
            link.heard = time.monotonic()  # who came early has had nothing to say since
        self._inside = False
        self._closing = self._closed = False
        self._thread = threading.Thread(target=self._attend, name="gtrxl-peers", daemon=True)
        self._thread.start()

    # Data. All hosts make the same calls in the same order.

    def to_first(self, payload: bytes | memoryview) -> list[bytes]:
        """What every host gives, in their order, on host 0; nothing on the others."""
        if self.host:
            self.links[0].send(DATA, payload)
            return []
        return [bytes(payload), *(self._take(host) for host in sorted(self.links))]

    def from_first(self, payload: bytes | memoryview) -> bytes:
        """What host 0 gives, on every host."""
        if self.host:
            return self._take(0)
        for link in self.links.values():
            link.send(DATA, payload)
        return bytes(payload)

    def exchange(self, value: Any) -> list[Any]:
        """What every host gives, in their order, on every host; as JSON can say it."""
        given = self.to_first(json.dumps(value).encode())
        return json.loads(self.from_first(b"[" + b",".join(given) + b"]"))

    def _take(self, host: int) -> bytes:
        link = self.links[host]
        while True:
            try:
                return link.inbox.get(timeout=0.5)
            except queue.Empty:
                if self._inside:
                    continue  # the thread ends the process if this host is lost
                if link.gone or link.left:
                    raise RunError(f"host {host} was lost: {link.gone or 'it ended'}; start all hosts again") from None

    # Life and death

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """While this lasts, no host can go on without the others: one that is lost ends all."""
        outer, self._inside = self._inside, True
        try:
            yield
        finally:
            self._inside = outer

    def leave(self) -> None:
        """Says farewell and waits until all have, so that JAX finds everyone there when it closes. If one is lost, the process
        ends here: JAX would end it with a stack trace."""
        self._closing, begun, said = True, time.monotonic(), False
        links = self.links.values()
        for link in links:
            link.send(LEAVING)
        while not all(link.gone or (link.all_left if self.host else link.left) for link in links):
            time.sleep(0.05)
            now = time.monotonic()
            if not said and now - begun > GRACE:
                said = True
                print("gtrxl: waiting for the other hosts to end", file=sys.stderr, flush=True)
            for link in links:
                if now - link.heard > SILENCE:
                    link.gone = "its connection broke"
        if not all(link.left for link in links):
            _end(1)
        for link in links:
            link.send(ALL_LEAVE)
        self.close()

    def close(self) -> None:
        """Hangs up."""
        self._closed = self._closing = True
        self._thread.join()
        for link in self.links.values():
            link.close()

    def _attend(self) -> None:
        """The thread: beats, listens, and judges."""
        beaten = 0.0
        while not self._closed:
            here = {link.connection: link for link in self.links.values() if link.gone is None}
            if here:
                for ready in select.select(list(here), [], [], BEAT / 4)[0]:
                    self._hear(here[ready])
            else:
                time.sleep(BEAT / 4)
            now = time.monotonic()
            if now - beaten > BEAT:
                beaten = now
                for link in here.values():
                    link.beat()
            if self._inside and not self._closing:
                self._judge(now)

    def _hear(self, link: Link) -> None:
        for kind, payload in link.listen():
            if kind == DATA:
                link.inbox.put(payload)
            elif kind == LEAVING:
                link.left = link.left or time.monotonic()
            elif kind == ALL_LEAVE:
                link.all_left = True
            elif kind == ENDING and self._inside and not self._closing:
                self._say_and_end(payload.decode(errors="replace"))

    def _judge(self, now: float) -> None:
        for host, link in self.links.items():
            why = None
            if link.left is not None:
                why = "it ended before the run did" if now - link.left > GRACE else None
            elif link.gone:
                why = link.gone
            elif now - link.heard > SILENCE:
                why = f"nothing was heard of it for {SILENCE:.0f} s"
            if why:
                self._say_and_end(f"host {host} was lost: {why}; go on from the last checkpoint by `gtrxl resume` on all hosts")

    def _say_and_end(self, line: str) -> None:
        for link in self.links.values():
            link.send(ENDING, line.encode())
        with contextlib.suppress(OSError, ValueError):
            shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # a live view may have hidden the cursor
            sys.stderr.write(f"{shown}gtrxl: {line}\n")  # at once, so that the lines of several hosts stay apart
        _end(LOST)


def _end(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
