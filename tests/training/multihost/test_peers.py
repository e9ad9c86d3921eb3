"""Hosts find each other, pass things on and notice a loss; here they are threads of one process."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gtrxl.runs.errors import RunError
from gtrxl.training.multihost import peers
from gtrxl.training.multihost.meeting import meet
from gtrxl.training.multihost.peers import DATA, LOST, Link

ABOUT = {"gtrxl": "1"}


@pytest.fixture(autouse=True)
def hung_up(monkeypatch):
    """Whoever met hangs up after the test."""
    made, whole = [], peers.Peers.__init__

    def init(self, *arguments):
        whole(self, *arguments)
        made.append(self)

    monkeypatch.setattr(peers.Peers, "__init__", init)
    yield
    for one in made:
        one.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def come(port: int, host: int, *, num_hosts: int = 3, about=ABOUT, limit: float = 20.0):
    return meet("127.0.0.1", port, host=host, num_hosts=num_hosts, about=about, limit=limit)


@pytest.fixture
def three(monkeypatch):
    """Three hosts that have met. They beat fast."""
    monkeypatch.setattr(peers, "BEAT", 0.1)
    port = free_port()
    with ThreadPoolExecutor(3) as pool:
        met = list(pool.map(lambda host: come(port, host), (2, 0, 1)))
    assert len({service for _, service in met}) == 1, "all were told the same address for JAX"
    return sorted((of for of, _ in met), key=lambda of: of.host)


@pytest.fixture
def ended(monkeypatch):
    """Where the processes that end are noted, with their codes, instead."""
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        raise SystemExit  # of the thread that listens

    monkeypatch.setattr(peers, "_end", end)
    return codes


def until(true) -> None:
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < 20
        time.sleep(0.01)


def all_do(hosts, call):
    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(call, hosts))


def test_every_host_hears_what_all_of_them_say(three):
    said = all_do(three, lambda of: of.exchange({"host": of.host, "float": 0.1, "none": None}))
    assert said == [[{"host": host, "float": 0.1, "none": None} for host in range(3)]] * 3


def test_bytes_go_to_the_first_and_from_the_first(three):
    """More than fits into the buffers of a connection, so that frames arrive in pieces."""
    content = [bytes([host]) * (3_000_000 + host) for host in range(3)]
    assert all_do(three, lambda of: of.to_first(content[of.host])) == [content, [], []]
    assert all_do(three, lambda of: of.from_first(content[0] if of.host == 0 else b"")) == [content[0]] * 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_lost_host_ends_the_others_with_its_name(three, ended, capfd):
    with three[0].inside(), three[1].inside():
        three[2].links[0].connection.shutdown(socket.SHUT_RDWR)
        until(lambda: len(ended) == 2)
    assert ended == [LOST, LOST]
    line = "gtrxl: host 2 was lost: its process ended; go on from the last checkpoint by `gtrxl resume` on all hosts"
    assert capfd.readouterr().err.splitlines() == [line] * 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_host_that_falls_silent_is_lost(three, ended, capfd, monkeypatch):
    monkeypatch.setattr(Link, "beat", lambda self: None)
    monkeypatch.setattr(peers, "SILENCE", 0.3)
    with three[1].inside():
        until(lambda: ended)
    assert "host 0 was lost: nothing was heard of it" in capfd.readouterr().err


def test_beats_keep_hosts_alive_and_no_one_is_judged_outside_a_run(three, ended, monkeypatch):
    monkeypatch.setattr(peers, "SILENCE", 1.0)
    with three[0].inside(), three[1].inside(), three[2].inside():
        time.sleep(2.0)
    assert not ended
    three[2].links[0].connection.shutdown(socket.SHUT_RDWR)
    until(lambda: three[0].links[2].gone)
    time.sleep(0.2)
    assert not ended
    with pytest.raises(RunError, match="host 0 was lost: its process ended; start all hosts again"):
        three[2].from_first(b"")


def test_hosts_leave_when_all_of_them_do(three, ended):
    left = [threading.Thread(target=of.leave) for of in three]
    left[0].start()
    left[2].start()
    time.sleep(0.3)
    assert left[0].is_alive()
    assert left[2].is_alive()
    left[1].start()
    for thread in left:
        thread.join(20)
        assert not thread.is_alive()
    assert not ended


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_host_that_leaves_in_the_middle_of_a_run_ends_the_others(three, ended, capfd, monkeypatch):
    monkeypatch.setattr(peers, "GRACE", 0.2)
    with three[0].inside(), three[2].inside():
        leaving = threading.Thread(target=three[1].leave)
        leaving.start()
        until(lambda: len(ended) == 2)
        three[0].close()
    leaving.join(20)
    assert ended == [LOST, LOST, 1], "the one that left ends when nobody is there any more, not as JAX would end it"
    assert "host 1 was lost: it ended before the run did" in capfd.readouterr().err


def test_who_does_not_fit_is_refused():
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(come, port, 0, num_hosts=2)
        with pytest.raises(RunError, match="--num-hosts must be the same on all hosts, got 3 on host 1 and 2 on host 0"):
            come(port, 1)
        with pytest.raises(RunError, match="--host must be another number on each host, got 0 twice; the hosts are 0 to 1"):
            _say_host_0(port)
        with pytest.raises(RunError, match=r"versions must be the same on all hosts, got .*'2'.* on host 1"):
            come(port, 1, num_hosts=2, about={"gtrxl": "2"})
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert come(port, 1, num_hosts=2)[1] == first.result(20)[1]


def _say_host_0(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        link = Link(connection)
        link.send(DATA, json.dumps({"host": 0, "num_hosts": 2, "about": ABOUT}).encode())
        raise RunError(link.first(until=time.monotonic() + 20)["refused"])


def _came_and_went(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            Link(connection).send(DATA, json.dumps({"host": 1, "num_hosts": 3, "about": ABOUT}).encode())
            time.sleep(0.2)
    except ConnectionRefusedError:
        return False
    return True


def test_a_host_that_was_started_again_takes_its_own_place():
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(come, port, 0)
        until(lambda: _came_and_went(port))
        second = pool.submit(come, port, 1)
        come(port, 2)
        assert second.result(20)[1] == first.result(20)[1]


def test_waiting_has_an_end():
    port = free_port()
    with pytest.raises(RunError, match=r"host 0 must answer at 127.0.0.1:\d+ within 0 s, got: .*refused; start it with --host 0"):
        come(port, 1, limit=0.3)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(come, port, 2)
        with pytest.raises(RunError, match=r"all hosts must come to 127.0.0.1:\d+ within 1 s, got no word of host 1; start each"):
            come(port, 0, limit=1.0)
        with pytest.raises(RunError, match="must let this host in, got no answer; see what host 0 says"):
            other.result(20)


def test_an_address_that_is_not_this_host_is_refused():
    with pytest.raises(RunError, match=r"--coordinator must be an address and a free port of this host, got 192.0.2.1:\d+"):
        meet("192.0.2.1", 4321, host=0, num_hosts=2, about=ABOUT, limit=1.0)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RunError, match="in use"):
        come(taken.getsockname()[1], 0)
