"""Programs that are no agents are reported as such."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman import ProtocolError, StartFailed, connect

# A program that refuses every initialize with the same words.
REFUSER = """
import json, sys
for line in sys.stdin:
    error = {"code": -32602, "message": "no project here"}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": error}), flush=True)
"""


async def test_a_program_that_repeats_its_input_is_not_an_agent(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="cat is not an ACP agent: it sends back what it gets"):
        async with connect("cat", cwd=str(tmp_path)):
            pass


async def test_a_reason_that_an_agent_gives_in_every_dialect_is_said_once(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"\(v1, draft, crow, 2025\.1, v2: no project here\)"):
        async with connect([sys.executable, "-c", REFUSER], cwd=str(tmp_path)):
            pass


@pytest.mark.parametrize(
    ("program", "who"),
    [
        ("from dragoman import Proxy; Proxy('guard').run()", "guard is a proxy"),
        ("from dragoman import Chain, Proxy; Chain([Proxy('a'), Proxy('b')]).run()", "a and b are proxies"),
    ],
)
async def test_a_proxy_that_is_started_as_an_agent_says_how_to_start_it(program: str, who: str, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    counted = f"open({str(starts)!r}, 'a').write('.'); {program}"
    expected = rf"^{who} without an agent; start it with dragoman conduct, or give proxy\.run\(COMMAND\)$"
    with pytest.raises(ProtocolError, match=expected):
        async with connect([sys.executable, "-c", counted], cwd=str(tmp_path)):
            pass
    assert starts.read_text() == "."
