"""A system that does not tell whose connection it is, such as macOS: the owner proves it by a token."""

from __future__ import annotations

import pytest

from dragoman import Agent, connect
from dragoman.errors import ConnectionFailed, StartFailed
from dragoman.transport.remote.server import origin
from dragoman.transport.remote.server.auth import accept_token


@pytest.fixture(autouse=True)
def hide_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as on a system that does not tell who owns a socket."""
    monkeypatch.setattr(origin, "_TELLS_OWNERS", False)


async def test_a_server_that_would_refuse_everybody_does_not_start_and_says_what_to_do() -> None:
    with pytest.raises(StartFailed, match=r"authenticate=accept_token\(SECRET\)"):
        async with Agent("plain").serve_http():
            pass


async def test_the_owner_connects_with_a_token_and_others_are_refused() -> None:
    agent = Agent("plain")
    async with agent.serve_http(authenticate=accept_token("s3cret")) as served:
        async with connect(served.url, token="s3cret") as remote:
            assert remote.initialize_result.protocol_version == 1
        for wrong in ("", "s3cre", "s3cret2"):
            with pytest.raises(ConnectionFailed, match="send the token of this server"):
                async with connect(served.url, token=wrong):
                    pass


def test_an_empty_token_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="token_urlsafe"):
        accept_token("")
