"""Addresses on the board: what a phone on the same network can open."""

from __future__ import annotations

import psutil
import pytest

from headscope.app.server.addresses import hosts_on_network, join_addresses


def test_all_addresses_of_this_machine_are_found_and_none_that_is_only_its_own() -> None:
    """psutil reads them in its own way."""
    interfaces = {
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family.name == "AF_INET" and not address.address.startswith(("127.", "169.254."))
    }
    assert set(hosts_on_network("0.0.0.0")) >= interfaces
    assert not any(host.startswith("127.") for host in hosts_on_network("0.0.0.0"))


@pytest.mark.parametrize("bound", ["127.0.0.1", "localhost", "::1"])
def test_a_server_for_this_machine_alone_has_no_address_for_others(bound: str) -> None:
    assert hosts_on_network(bound) == []


def test_a_server_bound_to_one_address_has_that_one() -> None:
    assert hosts_on_network("10.1.2.3") == ["10.1.2.3"]
    assert join_addresses(["fd00::2"], 8765, "127.0.0.1:8765") == ["[fd00::2]:8765"]


@pytest.mark.parametrize(
    ("asked_as", "board"),
    [
        ("127.0.0.1:8765", ["192.168.1.20:8765"]),
        ("localhost:8765", ["192.168.1.20:8765"]),
        ("laptop:8765", ["192.168.1.20:8765"]),
        ("[::1]:8765", ["192.168.1.20:8765"]),
        ("192.168.1.20:8765", ["192.168.1.20:8765"]),
        ("10.0.0.9:9000", ["10.0.0.9:9000", "192.168.1.20:8765"]),  # a forwarded port
        ("class.school.org", ["192.168.1.20:8765", "class.school.org"]),  # a proxy
    ],
)
def test_the_board_shows_no_loopback_and_no_bare_name(asked_as: str, board: list[str]) -> None:
    assert join_addresses(["192.168.1.20"], 8765, asked_as) == board
