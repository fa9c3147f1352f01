"""What a host stores, and what it quotes from the stderr of an agent, contains no secrets of the owner."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode
from typing import Any

import pytest
from msgspec import Raw

from dragoman.config.config_file import NamedAgent
from dragoman.errors import ProtocolError
from dragoman.host.host import Host
from dragoman.schema.base import encode
from dragoman.store.contract import Draft
from dragoman.store.memory import MemoryStore
from dragoman.store.wrappers import RedactingStore
from tests.host.memory_host import TIMEOUT, Hosted

SECRET = 'p"ss wörd/7'


def stored(body: Any, *secrets: str) -> Any:
    async def scene() -> Any:
        store = RedactingStore(MemoryStore(), secrets)
        entries = await store.append("s", [Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body=body)])
        lines = await store.lines("s")
        return entries[0].body, b"".join(lines)

    return asyncio.run(scene())


@pytest.mark.parametrize("wrap", [lambda body: body, lambda body: Raw(encode(body))], ids=["values", "raw"])
@pytest.mark.parametrize(
    "said", [SECRET, f"it is {SECRET}.", b64encode(SECRET.encode()).decode(), "p%22ss%20w%C3%B6rd%2F7"]
)
def test_a_secret_is_removed_in_each_of_its_encodings(wrap: Any, said: str) -> None:
    body, line = stored(wrap({"content": {"text": said}}), SECRET)
    assert b"[redacted]" in line
    assert "[redacted]" in str(body)
    assert said.encode() not in line


def test_secrets_that_are_added_later_are_removed_too() -> None:
    store = RedactingStore(MemoryStore(), [SECRET])
    store.add_secrets(["the-token-of-a-new-agent"])
    body = {"text": f"{SECRET} and the-token-of-a-new-agent"}
    (entry,) = asyncio.run(store.append("s", [Draft(kind="update", actor="agent", time="t", body=body)]))
    assert entry.body == {"text": "[redacted] and [redacted]"}


def test_text_without_secrets_is_unchanged() -> None:
    body = Raw(b'{"content": {"text": "p%22ss"}}')
    assert stored(body, SECRET, "short")[0] is body


# It reads initialize, then says its keys on stderr and exits.
ENDS_AT_INITIALIZE = """\
import os, sys
sys.stdin.readline()
keys = os.environ["MY_API_KEY"], os.environ["OWN_TOKEN"], "Bearer sk-abcdefghijklmnopqrstuvwx"
print("x" * 9000, *keys, file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize("shares", [False, True])
def test_clients_get_no_secrets_from_the_stderr_of_an_agent(monkeypatch: pytest.MonkeyPatch, shares: bool) -> None:
    monkeypatch.setenv("MY_API_KEY", "the-key-of-the-owner")
    agent = NamedAgent(
        name="ends",
        command=sys.executable,
        args=("-c", ENDS_AT_INITIALIZE),
        env={"OWN_TOKEN": "the-token-of-the-agent"},
        dialect="v1",
    )
    reported: list[str] = []

    async def scene() -> str:
        async with Host([agent], store=MemoryStore(), report=reported.append, share_processes=shares) as host:
            with pytest.raises(ProtocolError) as caught:
                async with Hosted(host, [], []).client():
                    pass
            return f"{caught.value.message} {caught.value.data}"

    said = asyncio.run(asyncio.wait_for(scene(), TIMEOUT)) + "".join(reported)
    assert "exited with status 3" in said
    assert "[redacted]" in said
    for secret in ("the-key-of-the-owner", "the-token-of-the-agent", "sk-abcdefghijklmnopqrstuvwx"):
        assert secret not in said
    assert len(said) < 10_000
