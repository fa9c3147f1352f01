"""`dragoman inspect run` on a chain: a recording for each hop, and a page with one lane for each component."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from dragoman import connect
from dragoman.inspect.reader import RecordingReader
from tests.cli.process import DRAGOMAN, in_process
from tests.roles.proxy.chain.pieces import raw_proxy

SMALL_AGENT = [sys.executable, str(Path(__file__).parent.parent / "cli" / "small_agent.py")]


def chunks(path: Path) -> str:
    """The text of the agent in a recording."""
    found = []
    for line in RecordingReader().read_file(str(path)):
        message = json.loads(line.data)
        if message.get("method") == "session/update":
            found.append(message["params"]["update"].get("content", {}).get("text", ""))
    return "".join(found)


async def test_each_hop_of_a_chain_has_a_recording_and_the_page_a_lane_for_each_component(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    talk = tmp_path / "talk.ndjson"
    proxies = [shlex.join(raw_proxy("--mark", "<")), "redact", shlex.join(raw_proxy("--mark", "-"))]
    chain = [*DRAGOMAN, "conduct", *proxies, "--", *SMALL_AGENT]
    async with connect([*DRAGOMAN, "inspect", "run", "--out", str(talk), "--quiet", "--", *chain]) as agent:
        session = await agent.open_session(cwd=str(tmp_path))
        assert (await session.ask("hello")).startswith("<-")
    hops = [talk, *(tmp_path / f"talk.hop-{number}.ndjson" for number in (2, 3, 4))]
    assert sorted(tmp_path.glob("talk*")) == sorted(hops)
    starts = [chunks(path)[:2].rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ") for path in hops]
    assert starts == ["<-", "-", "-", ""]
    for path in hops:
        methods = [json.loads(line.data).get("method") for line in RecordingReader().read_file(str(path))]
        assert [each for each in methods if each and each != "session/update"][:3] == [
            "initialize", "session/new", "session/prompt",
        ]  # fmt: skip
        assert path.stat().st_mode & 0o777 == 0o600
    page = tmp_path / "talk.html"
    shown = in_process("inspect", "export", str(talk), "--html", "--out", str(page), cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    data = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    assert data["lines"] == ["Client", "raw_proxy.py", "redact", "raw_proxy.py", "Agent"]
    assert {row[15] for row in data["rows"]} == {0, 1, 2, 3}


def test_the_recordings_of_a_proxy_can_still_be_named(tmp_path: Path) -> None:
    shown = in_process("inspect", "export", "a.ndjson", "--with", "b.ndjson", "--with", "c.ndjson", cwd=tmp_path)
    assert shown.returncode == 2
    assert "--with needs --html" in shown.stderr
