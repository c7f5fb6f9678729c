"""Find the addresses under which other machines on the network reach this one."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator

EVERY = ("0.0.0.0", "::")  # a server bound to one of these answers on all addresses of its machine
_ELSEWHERE = "198.51.100.1"  # kept for documentation (RFC 5737): nothing is sent to it
_ADDRESS_OF_INTERFACE = {"linux": 0x8915, "darwin": 0xC0206921}  # SIOCGIFADDR


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_on_network(bound: str) -> list[str]:
    """Hosts under which others reach a server bound to ``bound``, that of the default route first."""
    if bound not in EVERY:
        return [] if bound == "localhost" or is_loopback(bound) else [bound]
    found = [*_of_default_route(), *_of_interfaces(), *_of_own_name()]
    version, known = ipaddress.ip_address(bound).version, map(ipaddress.ip_address, dict.fromkeys(found))
    reachable = (each for each in known if not (each.is_loopback or each.is_link_local or each.is_unspecified))
    return [str(each) for each in reachable if each.version == version]


def join_addresses(hosts: list[str], port: int, asked_as: str) -> list[str]:
    """Addresses for the board, best first. ``asked_as`` is how the teacher's browser reached the server.

    Through a forwarded port or a proxy that may be an address that this machine does not know as its own.
    """
    found = [bracketed(host) + ("" if port == 80 else f":{port}") for host in hosts]
    name = asked_as.rpartition(":")[0] if ":" in asked_as.rpartition("]")[2] else asked_as
    if asked_as in found or "." not in name or is_loopback(name):
        return found
    return [asked_as, *found] if name.replace(".", "").isdecimal() else [*found, asked_as]


def bracketed(host: str) -> str:
    """A host as it is written in an address."""
    return f"[{host}]" if ":" in host else host


def _of_default_route() -> Iterator[str]:
    for family, elsewhere in ((socket.AF_INET, _ELSEWHERE), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((elsewhere, 9))
            except OSError:  # no route
                continue
            yield probe.getsockname()[0]


def _of_interfaces() -> Iterator[str]:
    wanted = _ADDRESS_OF_INTERFACE.get(sys.platform)
    if wanted is None:
        return
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                told = fcntl.ioctl(probe, wanted, struct.pack("16s16x", name.encode()[:15]))
            except OSError:  # an interface without an IPv4 address
                continue
            yield socket.inet_ntoa(told[20:24])


def _of_own_name() -> list[str]:
    """Every address where the system's own resolver knows them, as on Windows."""
    try:
        return socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        return []
