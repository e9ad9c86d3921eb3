"""The hosts of one run find each other: host 0 listens at an address that all were given, and the others come to it.

Who comes says which host it is, of how many, and with which versions; what does not fit is refused with the reason.
"""

import json
import socket
import time
from typing import Any

from gtrxl.runs.errors import RunError, first_line
from gtrxl.training.multihost.peers import DATA, Link, Peers


def meet(address: str, port: int, *, host: int, num_hosts: int, about: dict[str, Any], limit: float) -> tuple[Peers, str]:
    """All hosts, once they are there, and the address at which JAX's own service shall be. `about` must be the same on all."""
    until = time.monotonic() + limit
    if host == 0:
        return _receive(address, port, num_hosts, about, until, limit)
    return _visit(address, port, host, num_hosts, about, until, limit)


def _receive(address: str, port: int, num_hosts: int, about: dict[str, Any], until: float, limit: float) -> tuple[Peers, str]:
    try:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        server = socket.create_server(where[:2], family=family, backlog=num_hosts)
        with socket.create_server((where[0], 0), family=family) as free:
            service = free.getsockname()[1]
    except OSError as error:
        raise RunError(
            f"--coordinator must be an address and a free port of this host, got {address}:{port}: {first_line(error)}; "
            "give one at which the other hosts find host 0"
        ) from error
    links: dict[int, Link] = {}
    with server:
        while len(links) < num_hosts - 1:
            server.settimeout(max(until - time.monotonic(), 0.01))
            try:
                link = Link(server.accept()[0])
            except TimeoutError:
                missing = ", ".join(str(host) for host in range(1, num_hosts) if host not in links)
                for link in links.values():
                    link.close()
                raise RunError(
                    f"all hosts must come to {address}:{port} within {limit:.0f} s, got no word of host {missing}; "
                    f"start each with its --host and --num-hosts {num_hosts}"
                ) from None
            said = link.first(until=min(until, time.monotonic() + 5))
            if not isinstance(said, dict) or not isinstance(said.get("host"), int):
                link.close()  # not one of us
                continue
            links = _still_there(links)
            wrong = _wrong(said, num_hosts, about, links)
            if wrong:
                link.send(DATA, json.dumps({"refused": wrong}).encode())
                link.close()
                continue
            links = _still_there({**links, said["host"]: link})
    for link in links.values():
        link.send(DATA, json.dumps({"service": service}).encode())
    return Peers(0, num_hosts, links), _spell(str(where[0]), service)


def _still_there(links: dict[int, Link]) -> dict[int, Link]:
    """Without those that came and went: whoever starts such a host again is let in again."""
    gone = {host for host, link in links.items() if link.is_gone()}
    for host in gone:
        links[host].close()
    return {host: link for host, link in links.items() if host not in gone}


def _wrong(said: dict[str, Any], num_hosts: int, about: dict[str, Any], links: dict[int, Link]) -> str | None:
    host = said["host"]
    if said.get("num_hosts") != num_hosts:
        theirs = said.get("num_hosts")
        return (
            f"--num-hosts must be the same on all hosts, got {theirs} on host {host} and {num_hosts} on host 0; count all of them"
        )
    if not 0 < host < num_hosts or host in links:
        return f"--host must be another number on each host, got {host} twice; the hosts are 0 to {num_hosts - 1}"
    if said.get("about") != about:
        return (
            f"versions must be the same on all hosts, got {said.get('about')} on host {host} and {about} on host 0; install one"
        )
    return None


def _visit(
    address: str, port: int, host: int, num_hosts: int, about: dict[str, Any], until: float, limit: float
) -> tuple[Peers, str]:
    last = "no answer"
    while (left := until - time.monotonic()) > 0:
        try:
            link = Link(socket.create_connection((address, port), timeout=min(left, 5)))
            break
        except OSError as error:
            last = first_line(error)
            time.sleep(min(0.2, left))
    else:
        raise RunError(
            f"host 0 must answer at {address}:{port} within {limit:.0f} s, got: {last}; start it with --host 0, and see that "
            "--coordinator is its address and that no firewall is between"
        )
    link.connection.settimeout(None)
    link.send(DATA, json.dumps({"host": host, "num_hosts": num_hosts, "about": about}).encode())
    answer = link.first(until=until + 5)  # host 0 gives up first, and says so
    if not isinstance(answer, dict) or not isinstance(answer.get("service"), int):
        link.close()
        refused = answer.get("refused") if isinstance(answer, dict) else None
        raise RunError(
            refused or f"host 0 at {address}:{port} must let this host in, got no answer; see what host 0 says, start all again"
        )
    return Peers(host, num_hosts, {0: link}), _spell(link.connection.getpeername()[0], answer["service"])


def _spell(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
