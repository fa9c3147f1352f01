"""A URL is parsed, and secrets in it are never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import StartFailed
from dragoman.transport.remote.address import RemoteOptions, parse_address, redact_url, tls_context


@pytest.mark.parametrize(
    ("url", "secure", "socket", "port"),
    [
        ("https://host.example/acp", True, False, 443),
        ("wss://host.example:8443/acp/coder", True, True, 8443),
        ("http://127.0.0.1:7000/acp", False, False, 7000),
        ("ws://[::1]:7000/acp", False, True, 7000),
        ("http://localhost", False, False, 80),
    ],
)
def test_a_url_gives_transport_and_address(url: str, secure: bool, socket: bool, port: int) -> None:
    address = parse_address(url)
    assert (address.is_secure, address.is_websocket, address.port) == (secure, socket, port)
    assert address.url.rstrip("/") == url


def test_an_http_address_is_upgraded_to_websocket_on_request() -> None:
    assert parse_address("https://host.example/acp", RemoteOptions(upgrade=True)).url == "wss://host.example/acp"


def test_a_token_and_a_password_are_sent_in_headers_and_never_shown() -> None:
    address = parse_address("https://ann:s3cret@host.example/acp?token=t0ken&room=5")
    assert dict(address.headers)["Authorization"].startswith("Basic ")
    assert "t0ken" in address.url
    assert address.display_url == "https://host.example/acp?token=...&room=5"
    bearer = parse_address("https://host.example/acp", RemoteOptions(token="t0ken"))
    assert dict(bearer.headers) == {"Authorization": "Bearer t0ken"}
    for name in (address.display_url, bearer.display_url, redact_url("https://a:s3cret@[bad/?token=t0ken")):
        assert "s3cret" not in name
        assert "t0ken" not in name


@pytest.mark.parametrize(
    ("url", "remote", "says"),
    [
        ("http://", RemoteOptions(), "https://host.example/acp"),
        ("https://host.example:99999/acp", RemoteOptions(), "this is not an address"),
        ("https://host.example/a b", RemoteOptions(), "this is not an address"),
        ("http://host.example/acp", RemoteOptions(), "without TLS only this machine"),
        ("ws://192.0.2.7/acp", RemoteOptions(token="s3cret"), "use wss://"),
        ("https://host.example/acp", RemoteOptions(token="two\nlines"), "the token has characters"),
        ("https://host.example/acp", RemoteOptions(headers={"X-A": "ü"}), "the header 'X-A'"),
    ],
)
def test_the_error_for_an_invalid_address_says_what_to_do(url: str, remote: RemoteOptions, says: str) -> None:
    with pytest.raises(StartFailed, match=says) as raised:
        parse_address(url, remote)
    assert "s3cret" not in str(raised.value)


def test_plain_http_to_another_machine_needs_an_option() -> None:
    assert parse_address("http://192.0.2.7/acp", RemoteOptions(tls=False)).host == "192.0.2.7"


def test_the_error_for_a_file_without_certificates_names_it(tmp_path: Path) -> None:
    place = tmp_path / "ca.pem"
    for content in (None, "no certificate"):
        if content is not None:
            place.write_text(content)
        with pytest.raises(StartFailed, match=r"ca\.pem cannot be used"):
            tls_context(place, "https://host.example")
