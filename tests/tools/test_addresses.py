"""Which addresses a call may go to, and which not, also where one is wrapped into another."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.tools.http.service import Endpoint, read_endpoint, why_refused

REFUSED = [
    "0.0.0.0",  # noqa: S104 - nothing is bound to it
    "127.0.0.1", "127.8.9.10", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "192.0.0.1", "198.18.0.1", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1", "64:ff9b:1::1", "::8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_an_address_that_is_not_everybodys_is_refused(text: str) -> None:
    """Loopback, private, link-local, shared, reserved, multicast and unspecified ones are."""
    assert why_refused(ip_address(text)) is not None


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "64:ff9b::808:808"]
)
def test_an_address_that_anybody_may_reach_is_not(text: str) -> None:
    """Global ones are not refused, also as NAT64 spells them."""
    assert why_refused(ip_address(text)) is None


def wrapped(address: IPv4Address) -> list[IPv6Address]:
    """The ways in which IPv6 carries an IPv4 address."""
    number = int(address)
    return [
        IPv6Address((0xFFFF << 32) | number),
        IPv6Address((0x2002 << 112) | (number << 80) | 1),
        IPv6Address((0x64FF9B << 96) | number),
        IPv6Address((0x20010DB9 << 96) | (0x5EFE << 32) | number),
        IPv6Address((0x20010DB9 << 96) | (0x02005EFE << 32) | number),
    ]


@given(st.ip_addresses(v=4))
def test_what_is_wrapped_is_looked_at(address: IPv4Address) -> None:
    """An IPv4 address that is refused is refused in every wrapping."""
    if why_refused(address) is not None:
        assert all(why_refused(each) is not None for each in wrapped(address))


@given(st.text(max_size=30))
def test_an_endpoint_is_read_or_refused(text: str) -> None:
    """Whatever stands there, it is a host with a port or wrong use."""
    try:
        endpoint = read_endpoint(text)
    except UsageError:
        return
    assert 0 < endpoint.port < 65_536
    assert read_endpoint(str(endpoint)) == endpoint


def test_endpoints_of_all_kinds() -> None:
    """Names, IPv4 and bracketed IPv6 addresses have a port."""
    assert read_endpoint("API.example.test:443") == Endpoint("api.example.test", 443)
    assert str(read_endpoint("[::1]:80")) == "[::1]:80"
    for wrong in ("api.example.test", "::1:80", ":80", "a:0", "a:99999", "a:8O", "[a]:80"):
        with pytest.raises(UsageError):
            read_endpoint(wrong)
