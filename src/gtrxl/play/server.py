"""Tasks played by people: a page in a browser, served to this machine alone.

    GET  /          the page
    GET  /game      what does not change, and the picture and numbers as they are
    POST /step      {"held": ["forward", "turn left"]} -> picture and numbers
    POST /restart   {"seed": 3} -> the same; the next seed if none is given

Other sites that the browser has open must not play: a request whose Host or Origin is not this server's is refused. Whatever is
malformed is refused too, in one line; and who is slow to send or to read keeps nobody else waiting.
"""

import contextlib
import http
import http.server
import importlib.resources
import json
import os
import re
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from typing import Any

from gtrxl.play.game import Game
from gtrxl.runs.errors import RunError
from gtrxl.tasks.contract import Task
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.making import make_task

HOME = "127.0.0.1"
LONGEST = 4096
"""Bytes of a request that are read."""
PATIENCE = 10.0
"""Seconds that a client may take to send what it has announced, or to take an answer."""
LONGEST_LINE = 500
"""Characters of a refusal."""
HEARD_OUT, MOST_HEARD = 1.0, 2**20
"""Seconds and bytes for which a client that is refused may go on sending."""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"


class PlayServer(http.server.ThreadingHTTPServer):
    """Serves one game. Take it as a context: it lets go of its port at the end."""

    daemon_threads = True
    game: Game
    """Must be set before the first request."""

    def __init__(self, *, port: int = 0):
        """`port` 0 takes a free one."""
        if not 0 <= port <= 65535:
            raise RunError(f"port must be from 0 to 65535, got {port}; leave --port out and a free one is taken")
        self.closed = False
        self.patience = PATIENCE
        self.turn = threading.Lock()
        """One request at a time touches the game. Nobody has it while sending or waiting."""
        try:
            super().__init__((HOME, port), _Handler)
        except OSError as error:
            raise RunError(
                f"port must be free, got {port}: {error.strerror or error}; leave --port out and a free one is taken"
            ) from error

    def server_close(self) -> None:
        """Lets go of the port; pages that are still connected are told at their next step."""
        self.closed = True
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is nobody's mistake; anything else is ours, and said."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOME}:{self.server_port}/"

    @property
    def names(self) -> tuple[str, ...]:
        """What a browser calls this server."""
        return tuple(f"{host}:{self.server_port}" for host in (HOME, "localhost"))


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PlayServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # who sends a line that is no request gets a whole answer, too
    disable_nagle_algorithm = True  # a picture waits for no acknowledgement
    timeout = 600
    """Seconds between two requests of a page that is open."""

    def do_GET(self) -> None:
        """The page, or the game."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # nobody reads that: it must not be taken for the next request
        if not self._ours():
            return
        if self.path == "/":
            page = importlib.resources.files("gtrxl.play").joinpath("play.html").read_bytes()
            self._answer(200, page, "text/html; charset=utf-8")
        elif self.path == "/game":
            self._play(lambda game: {**game.about(), **game.view()})
        else:
            self._refuse(404, "there is nothing here; the page is at /")

    def do_POST(self) -> None:
        """A step, or another episode."""
        if not self._ours():
            return
        try:
            asked = self._asked()
            if self.path == "/step":
                held = frozenset(_names(asked.get("held", [])))
                self._play(lambda game: game.step(held))
            elif self.path == "/restart":
                seed = _seed(asked["seed"]) if "seed" in asked else None
                self._play(lambda game: game.begin(game.seed + 1 if seed is None else seed))
            else:
                self._refuse(404, "there is nothing here; POST to /step or /restart")
        except TimeoutError:
            self._refuse(408, f"a request must come within {self.server.patience:g} s, got a part of it; send it again")
        except (RunError, TaskError) as error:
            self._refuse(400, str(error))

    def _play(self, move: Callable[[Game], dict[str, Any] | None]) -> None:
        """Does something with the game, and tells what that says, or how the game stands then."""
        with self.server.turn:
            said = move(self.server.game) or self.server.game.view()
        self._answer(200, json.dumps(said).encode(), "application/json")

    def _ours(self) -> bool:
        """Whether this came from our own page; if not, it is refused."""
        origin = self.headers.get("Origin")
        if self.server.closed:
            self._refuse(503, "the game is over; start it again")
        elif self.headers.get("Host") not in self.server.names:
            self._refuse(403, f"open {self.server.address}: other names of this server are refused")
        elif origin is not None and origin not in {f"http://{name}" for name in self.server.names}:
            self._refuse(403, "only the page of this server may play")
        else:
            return True
        return False

    def _asked(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise RunError("a request must be application/json, got something else; the page sends it so")
        said = self.headers.get("Content-Length", "")
        length = int(said) if re.fullmatch("[0-9]{1,9}", said) else -1
        if not 0 <= length <= LONGEST or "Transfer-Encoding" in self.headers:
            raise RunError(f"a request must have at most {LONGEST} bytes and say how many, got another; send less")
        self.connection.settimeout(self.server.patience)
        body = self.rfile.read(length)
        self.connection.settimeout(self.timeout)
        if len(body) < length:
            raise RunError(f"a request must be as long as it says, got {len(body)} bytes of {length}; send all of it")
        try:
            asked = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            raise RunError('a request must be a JSON object, got something else; for example {"held": ["forward"]}')
        return asked

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True  # its body may not have been read
        line = " ".join(why.split())[:LONGEST_LINE] + "\n"
        self._answer(status, line.encode(errors="backslashreplace"), "text/plain; charset=utf-8")
        self._hear_out()

    def _hear_out(self) -> None:
        """Takes what is still coming: a connection that is closed on it may lose the answer that was sent."""
        deadline, left = time.monotonic() + min(self.server.patience, HEARD_OUT), MOST_HEARD
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (seconds := deadline - time.monotonic()) > 0:
                self.connection.settimeout(seconds)
                came = len(self.connection.recv(65536))
                left = left - came if came else 0

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What Python's server itself has to say against a request, in our form."""
        del explain
        if code == http.HTTPStatus.NOT_IMPLEMENTED:
            code, message = http.HTTPStatus.METHOD_NOT_ALLOWED, "a request must be a GET or a POST, got another"
        self._refuse(int(code), f"{message or http.HTTPStatus(code).phrase}; open {self.server.address}")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.connection.settimeout(self.server.patience)
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.connection.settimeout(self.timeout)
        except OSError:  # it does not read, or is gone
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """The terminal stays quiet."""


def _names(held: Any) -> list[str]:
    if not isinstance(held, list) or not all(isinstance(name, str) for name in held):
        raise RunError(f"held must be a list of buttons, got {held!r}; see the page")
    return held


def _seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise RunError(f"seed must be a whole number, got {seed!r}; it decides the episode")
    return seed


def play(task: str, *, seed: int = 0, port: int = 0, browser: bool = True) -> Game:
    """Serves a task until Ctrl-C; returns the game as it was left. Says the address on standard output."""
    made = make_task(task)
    with PlayServer(port=port) as server:
        print(f"compiling {task} ...", flush=True)
        server.game = ready(made, seed=seed)
        print(f"playing {task} at {server.address} (Ctrl-C ends)", flush=True)
        if browser and _has_display():
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
        return server.game


def ready(task: Task, *, seed: int = 0) -> Game:
    """A game that is compiled: the first key that is pressed does not wait."""
    trial = Game(task, seed=seed)
    trial.step({next(button.name for button in trial.controls.buttons if not button.changes)})
    trial.view()
    return Game(task, seed=seed)


def _has_display() -> bool:
    """Without one, a browser would open in the terminal."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
