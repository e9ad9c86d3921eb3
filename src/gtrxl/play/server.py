"""Tasks played by people: a page in a browser, served to this machine alone.

    GET  /          the page
    GET  /game      what does not change, and the picture and numbers as they are
    POST /step      {"held": ["forward", "turn left"]} -> picture and numbers
    POST /restart   {"seed": 3} -> the same; the next seed if none is given

Other sites that the browser has open must not play: a request whose Host or Origin is not this server's is refused.
"""

import http.server
import importlib.resources
import json
import os
import sys
import threading
import webbrowser
from typing import Any

from gtrxl.play.game import Game
from gtrxl.runs.errors import RunError
from gtrxl.tasks.contract import Task
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.making import make_task

HOME = "127.0.0.1"
LONGEST = 4096
"""Bytes of a request that are read."""
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
        self.turn = threading.Lock()
        """One request at a time touches the game."""
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
    wbufsize = -1  # an answer goes out in one piece: a picture waits for no acknowledgement
    disable_nagle_algorithm = True
    timeout = 600

    def do_GET(self) -> None:
        """The page, or the game."""
        if not self._ours():
            return
        if self.path == "/":
            page = importlib.resources.files("gtrxl.play").joinpath("play.html").read_bytes()
            self._answer(200, page, "text/html; charset=utf-8")
        elif self.path == "/game":
            with self.server.turn:
                self._tell({**self.server.game.about(), **self.server.game.view()})
        else:
            self._refuse(404, "there is nothing here; the page is at /")

    def do_POST(self) -> None:
        """A step, or another episode."""
        if not self._ours():
            return
        try:
            asked = self._asked()
            with self.server.turn:
                game = self.server.game
                if self.path == "/step":
                    game.step(frozenset(_names(asked.get("held", []))))
                elif self.path == "/restart":
                    game.begin(_seed(asked.get("seed", game.seed + 1)))
                else:
                    self._refuse(404, "there is nothing here; POST to /step or /restart")
                    return
                self._tell(game.view())
        except (RunError, TaskError) as error:
            self._refuse(400, str(error))

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
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            length = -1
        if not 0 <= length <= LONGEST:
            self.close_connection = True  # what was not read is not the next request
            raise RunError(f"a request must have at most {LONGEST} bytes and say how many, got another; send less")
        try:
            asked = json.loads(self.rfile.read(length) or b"{}")
        except ValueError:
            asked = None
        if not isinstance(asked, dict):
            raise RunError('a request must be a JSON object, got something else; for example {"held": ["forward"]}')
        return asked

    def _tell(self, said: dict[str, Any]) -> None:
        self._answer(200, json.dumps(said).encode(), "application/json")

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True  # its body may not have been read
        self._answer(status, (why + "\n").encode(), "text/plain; charset=utf-8")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

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
