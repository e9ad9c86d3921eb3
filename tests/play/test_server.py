"""The server of a game against clients that do not behave: nobody else waits for them, and each is told why in one line."""

import contextlib
import json
import re
import socket
import threading
import time

import pytest

from gtrxl.play.game import Game
from gtrxl.play.server import PlayServer
from gtrxl.tasks import TMaze

LARGE = 20_000_000
"""Bytes of an answer that no buffer on the way holds."""
SOON = 5.0


class Large:
    """As a game, with a picture that takes a while to send."""

    seed, elapsed = 0, 0

    def about(self):
        return {}

    def view(self):
        return {"picture": "x" * LARGE, "elapsed": self.elapsed}

    def step(self, held):
        self.elapsed += 1

    def begin(self, seed):
        self.seed, self.elapsed = seed, 0


@contextlib.contextmanager
def served(game, *, patience=None):
    """The server of a game, on a port of its own."""
    with PlayServer() as server:
        server.game = game
        if patience is not None:
            server.patience = patience
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def t_maze():
    with served(Game(TMaze(corridor=3), seed=2), patience=0.5) as server:
        yield server


def connected(server: PlayServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=SOON)


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    came = []
    while part := connection.recv(2**20):
        came.append(part)
    return b"".join(came)


def request(server: PlayServer, line: str, body: bytes = b"", **headers: str) -> bytes:
    """A request as bytes; with no more headers than it must have."""
    named = {"Host": f"127.0.0.1:{server.server_port}"} | {name.replace("_", "-"): of for name, of in headers.items()}
    head = "\r\n".join([f"{line} HTTP/1.1", *(f"{name}: {of}" for name, of in named.items())])
    return head.encode() + b"\r\n\r\n" + body


def posted(server: PlayServer, path: str, body: bytes, **headers: str) -> bytes:
    said = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    return request(server, f"POST {path}", body, **(said | headers))


def test_a_client_that_never_reads_keeps_nobody_waiting():
    with served(Large()) as server, connected(server) as deaf:
        deaf.sendall(request(server, "GET /game") * 3)
        assert deaf.recv(1), "its answer has begun"
        begun = time.monotonic()
        for line in ("GET /game", "GET /"):
            with connected(server) as other:
                other.sendall(request(server, line, Connection="close"))
                assert everything(other).startswith(b"HTTP/1.1 200")
        with connected(server) as other:
            other.sendall(posted(server, "/step", b'{"held": []}', Connection="close"))
            answer = everything(other)
        assert time.monotonic() - begun < SOON
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["elapsed"] == 1


def test_a_client_that_never_reads_is_let_go():
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(served(Large(), patience=0.3))
        before = threading.active_count()  # its own thread is not begun yet, or this would not wait for its end
        deaf = opened.enter_context(connected(server))
        deaf.sendall(request(server, "GET /game"))
        assert deaf.recv(1)
        deadline = time.monotonic() + SOON
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.02)
        assert threading.active_count() <= before, "its thread has ended"
        with contextlib.suppress(ConnectionResetError):
            assert len(everything(deaf)) < LARGE, "what it did not take is gone"


DEEP = b'{"held": ' + b"[" * 2000 + b"]" * 2000 + b"}"

BAD = {
    "deep lists": (400, "must be a JSON object", lambda of: posted(of, "/step", DEEP)),
    "deep objects": (400, "must be a JSON object", lambda of: posted(of, "/step", b'{"a":' * 800)),
    "a huge length": (400, "at most 4096 bytes", lambda of: posted(of, "/step", b"{}", Content_Length="99999999999999")),
    "a length of many digits": (400, "at most 4096 bytes", lambda of: posted(of, "/step", b"{}", Content_Length="9" * 5000)),
    "a huge body": (400, "at most 4096 bytes", lambda of: posted(of, "/step", b" " * 300_000)),
    "no length": (400, "say how many", lambda of: request(of, "POST /step", Content_Type="application/json")),
    "a negative length": (400, "say how many", lambda of: posted(of, "/step", b"{}", Content_Length="-2")),
    "a length in words": (400, "say how many", lambda of: posted(of, "/step", b"{}", Content_Length="two")),
    "a length like Python's": (400, "say how many", lambda of: posted(of, "/step", b"{}", Content_Length="+0_2")),
    "chunks": (400, "say how many", lambda of: posted(of, "/step", b"2\r\n{}\r\n0\r\n\r\n", Transfer_Encoding="chunked")),
    "less than it says": (408, "within 0.5 s, got a part", lambda of: posted(of, "/step", b"{}", Content_Length="9")),
    "no text": (400, "must be a JSON object", lambda of: posted(of, "/step", b'\xff\xfe{"held": []}\x80')),
    "a number": (400, "must be a JSON object", lambda of: posted(of, "/step", b"NaN")),
    "held: a number": (400, "held must be a list", lambda of: posted(of, "/step", b'{"held": 5}')),
    "held: an object": (400, "held must be a list", lambda of: posted(of, "/step", b'{"held": {"forward": 1}}')),
    "held: null": (400, "held must be a list", lambda of: posted(of, "/step", b'{"held": null}')),
    "held: numbers": (400, "held must be a list", lambda of: posted(of, "/step", b'{"held": [1, 2]}')),
    "held: half a letter": (400, "a button must be one of", lambda of: posted(of, "/step", b'{"held": ["\\ud800"]}')),
    "held: many lines": (400, "a button must be one of", lambda of: posted(of, "/step", b'{"held": ["a\\nb\\r\\nc"]}')),
    "seed: half": (400, "seed must be a whole number", lambda of: posted(of, "/restart", b'{"seed": 0.5}')),
    "seed: true": (400, "seed must be a whole number", lambda of: posted(of, "/restart", b'{"seed": true}')),
    "seed: infinity": (400, "seed must be a whole number", lambda of: posted(of, "/restart", b'{"seed": 1e999}')),
    "seed: null": (400, "seed must be a whole number", lambda of: posted(of, "/restart", b'{"seed": null}')),
    "no host": (403, "other names", lambda of: b"GET / HTTP/1.1\r\n\r\n"),
    "another verb": (405, "must be a GET or a POST", lambda of: request(of, "BREW /")),
    "no http": (400, "(?i)bad request", lambda of: b"\x16\x03\x01\x02\x00\x01\xfc\r\n\r\n"),
    "a long line": (414, "Long", lambda of: b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"),
    "many headers": (431, "(?i)headers", lambda of: b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_malformed_is_refused_in_one_line(t_maze, name, capfd):
    status, message, made = BAD[name]
    before = t_maze.game.view()
    with connected(t_maze) as connection:
        connection.sendall(made(t_maze))
        head, _, said = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert re.search(message, said.decode())
    assert said.count(b"\n") == 1
    assert len(said) < 600
    assert t_maze.game.view() == before
    assert capfd.readouterr() == ("", ""), "nothing in the terminal"


def test_a_client_that_leaves_early_did_nothing(t_maze, capfd):
    before = t_maze.game.view()
    with connected(t_maze) as connection:
        connection.sendall(posted(t_maze, "/step", b"{}", Content_Length="20"))
        connection.shutdown(socket.SHUT_WR)
        said = everything(connection)
    assert b" 400 " in said
    assert b"got 2 bytes of 20" in said
    with connected(t_maze) as connection:  # gone in the middle of a line, without a word
        connection.sendall(b"POST /st")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with connected(t_maze) as connection:
        connection.sendall(request(t_maze, "GET /game", Connection="close"))
        assert b" 200 " in everything(connection)
    assert t_maze.game.view() == before
    assert capfd.readouterr() == ("", "")


def test_what_follows_a_request_without_a_body_is_no_request(t_maze):
    """A page of another site could put a POST into the body of a GET."""
    before, inside = t_maze.game.view(), posted(t_maze, "/step", b'{"held": ["forward"]}')
    with connected(t_maze) as connection:
        connection.sendall(request(t_maze, "GET /game", inside, Content_Length=str(len(inside))))
        said = everything(connection)
    assert said.count(b"HTTP/1.1") == 1
    assert t_maze.game.view() == before
