"""Run chains with the official Rust conductor and proxies of the official Rust SDK, in both directions.

`python -m interop.chains [CELL...]`, part of `make interop`. Builds peers/rust_chain with cargo into the cache the
first time. Prints one line for each cell; exits with 1 if one failed. Without cargo it says so and does nothing. A
run of all cells writes a section of docs/matrix.md.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from dragoman import Chain, Proxy, connect
from dragoman.errors import DragomanError
from dragoman.roles.proxy.chain import AnyProxy
from dragoman.testing import ScriptedPeer
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from dragoman.transport.process.transport import spawn
from interop.counterparts import PEERS
from interop.install import CACHE
from interop.page import CHAINS, MARKS, Verdict, with_section

# The first build compiles some hundred crates on a slow machine. Seconds.
BUILDING = 3600.0

# Seconds for one cell: five processes on a busy machine.
PATIENCE = 120.0

PAGE = Path(__file__).parent.parent / "docs" / "matrix.md"

DRAGOMAN = [sys.executable, "-m", "dragoman"]
AGENT = [sys.executable, str(PEERS / "chain_agent.py")]
OURS = [sys.executable, str(PEERS / "chain_proxy.py")]

HELLO = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "interop", "version": "1"}}


def build() -> Path | None:
    """Build the Rust programs; return their folder, or None without cargo."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return None
    words = ["build", "--release", "--quiet", "--manifest-path", str(PEERS / "rust_chain" / "Cargo.toml")]
    target, sources = CACHE / "cargo", sorted((PEERS / "rust_chain").rglob("*.rs"))
    stamp, wanted = target / "chains", "".join(each.read_text() for each in [*sources, PEERS / "rust_chain/Cargo.toml"])
    if not stamp.exists() or stamp.read_text() != wanted:  # cargo would link again after each checkout
        env = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        subprocess.run([cargo, *words], check=True, timeout=BUILDING, env=env)
        stamp.write_text(wanted)
    return target / "release"


class Rust:
    """The programs of the official SDK."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def program(self, name: str) -> str:
        """The command of a program, quoted."""
        return shlex.quote(str(self._folder / f"sdk_{name}"))

    def conductor(self, *components: str, mode: str = "agent") -> list[str]:
        """The command of the official conductor with these components."""
        return [str(self._folder / "sdk_conductor"), mode, *components]


async def ask(target: Chain | list[str], text: str) -> str:
    """Open a session of an agent and return what it says to one prompt."""
    async with connect(target, permission="allow", cwd=tempfile.gettempdir()) as agent:
        session = await agent.open_session(cwd=tempfile.gettempdir())
        return await session.ask(text)


def chain(*proxies: AnyProxy) -> Chain:
    """A chain of ours before the test agent."""
    return Chain(proxies, agent=AGENT)


def hash_proxy() -> Proxy:
    """A proxy in this process that puts `#` before each text chunk."""
    proxy = Proxy("hash")

    @proxy.from_agent("session/update")
    async def mark(params, forward):  # type: ignore[no-untyped-def]
        content: Any = getattr(params.update, "content", None)
        if getattr(content, "text", None):
            content.text = f"#{content.text}"
        await forward(params)

    return proxy


def expect(found: str, wanted: str) -> None:
    """Compare what an agent said."""
    if found.strip() != wanted.strip():
        raise AssertionError(f"expected {wanted!r}, got {found!r}")


async def pass_through_under_ours(rust: Rust) -> None:
    """Rust pass-through under our conductor."""
    expect(await ask(chain(rust.program("pass_through")), "one two"), "one two")


async def editing_under_ours(rust: Rust) -> None:
    """Rust proxies, ours in a process and ours in this process, in one chain."""
    mixed = chain(rust.program("arrow"), hash_proxy(), OURS, rust.program("pass_through"), rust.program("arrow"))
    expect(await ask(mixed, "one two"), ">#*>one >#*>two")


async def tools_under_ours(rust: Rust) -> None:
    """A Rust proxy that offers MCP tools: our agent calls one over ACP."""
    answer = await ask(chain(rust.program("pass_through"), rust.program("mcp_proxy"), OURS), "tool hello")
    if "rust echo: hello" not in answer:
        raise AssertionError(f"got {answer!r}")


async def polyfill_under_ours(rust: Rust) -> None:
    """The official polyfill between a Rust proxy with MCP tools and our agent."""
    answer = await ask(chain(rust.program("mcp_proxy"), rust.program("polyfill")), "tool hello")
    if "rust echo: hello" not in answer:
        raise AssertionError(f"got {answer!r}")


async def ours_under_theirs(rust: Rust) -> None:
    """Our proxy under the official conductor, alone."""
    expect(await ask(rust.conductor(shlex.join(OURS), shlex.join(AGENT)), "one two"), "*one *two")


async def ours_between_theirs(rust: Rust) -> None:
    """Our proxy, twice, between Rust proxies under the official conductor."""
    ours = shlex.join(OURS)
    command = rust.conductor(rust.program("arrow"), ours, rust.program("pass_through"), ours, shlex.join(AGENT))
    expect(await ask(command, "one two"), ">**one >**two")


async def built_in_under_theirs(rust: Rust) -> None:
    """Our conductor with built-in proxies as one proxy of the official conductor."""
    nested = shlex.join([*DRAGOMAN, "conduct", "--as-proxy", "redact", shlex.join(OURS)])
    command = rust.conductor(rust.program("arrow"), nested, shlex.join(AGENT))
    expect(await ask(command, "one sk-abcdefghijklmnopqrstuvwx two"), ">*one >*[redacted] >*two")


async def theirs_as_a_proxy_of_ours(rust: Rust) -> None:
    """The official conductor as one proxy of ours."""
    nested = shlex.join(rust.conductor(rust.program("arrow"), rust.program("pass_through"), mode="proxy"))
    expect(await ask(chain(OURS, nested, OURS), "one two"), "*>*one *>*two")


async def unknown_things_pass_ours_under_theirs(rust: Rust) -> None:
    """Unknown methods, members and errors pass our proxy under the official conductor unchanged."""
    agent = shlex.join([sys.executable, str(PEERS / "raw_echo_agent.py")])
    transport = await spawn(rust.conductor(shlex.join(OURS), rust.program("pass_through"), agent))
    client = ScriptedPeer(transport, PATIENCE)
    try:
        answer = await client.request(1, "initialize", {**HELLO, "_color": {"deep": [None, 1.5]}})
        if answer["result"]["_params"]["_color"] != {"deep": [None, 1.5]}:
            raise AssertionError(f"initialize changed: {answer}")
        answer = await client.request(2, "_unknown/method", {"a": None, "b": [{"c": "é"}]})
        if answer["result"] != {"_method": "_unknown/method", "_params": {"a": None, "b": [{"c": "é"}]}}:
            raise AssertionError(f"the message changed: {answer}")
        answer = await client.request(3, "_error", {"code": -7, "message": "odd", "data": None})
        if answer["error"]["code"] != -7 or answer["error"]["message"] != "odd":
            raise AssertionError(f"the error changed: {answer}")
    finally:
        await transport.close()


async def order_under_ours(rust: Rust) -> None:
    """A notification, an answer and a notification at once keep their places through Rust proxies."""
    front, left = memory_pair()
    back, right = memory_pair()
    proxies = [rust.program("pass_through")] * 3
    running = asyncio.create_task(Chain(proxies, agent=back, client_dialect="v1", agent_dialect="v1").serve(front))
    client, agent = ScriptedPeer(left, PATIENCE), ScriptedPeer(right, PATIENCE)
    client.send({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": HELLO})
    asked = await agent.expect(method="initialize")
    agent.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    await client.expect(id="i")
    for number in range(200):
        client.send({"jsonrpc": "2.0", "id": number, "method": "_ask", "params": {}})
        asked = await agent.expect(method="_ask")
        agent.send({"jsonrpc": "2.0", "method": "_note", "params": {"n": "before"}})
        agent.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"n": "answer"}})
        agent.send({"jsonrpc": "2.0", "method": "_note", "params": {"n": "after"}})
        seen = [await client.receive() for _ in range(3)]
        order = [each["params"]["n"] if "params" in each else each["result"]["n"] for each in seen]
        if order != ["before", "answer", "after"]:
            raise AssertionError(f"round {number}: {order}")
    await left.close()
    await running


async def cancel_under_both(rust: Rust) -> None:
    """A cancelled turn ends as cancelled, through Rust proxies under either conductor."""
    targets: list[Chain | list[str]] = [
        chain(rust.program("pass_through"), OURS, rust.program("arrow")),
        rust.conductor(rust.program("pass_through"), shlex.join(OURS), shlex.join(AGENT)),
    ]
    for target in targets:
        async with connect(target, cwd=tempfile.gettempdir()) as agent:
            session = await agent.open_session(cwd=tempfile.gettempdir())
            async with session.prompt("wait") as turn:
                async for _ in turn:
                    turn.cancel()
            if turn.stop_reason != "cancelled":
                raise AssertionError(f"the turn ended with {turn.stop_reason}")


async def death_under_ours(rust: Rust) -> None:
    """A Rust proxy that is killed in a turn is named."""
    found: list[int] = []

    def note(transport: Transport, name: str) -> Transport:
        if name == "sdk_arrow":
            found.append(getattr(transport, "pid", 0))
        return transport

    target = Chain([rust.program("pass_through"), rust.program("arrow")], agent=AGENT, wrap=note)
    async with connect(target, cwd=tempfile.gettempdir()) as agent:
        session = await agent.open_session(cwd=tempfile.gettempdir())
        try:
            async with session.prompt("wait") as turn:
                async for _ in turn:
                    os.kill(found[0], signal.SIGKILL)
        except DragomanError as error:
            if "proxy 2 (sdk_arrow)" not in str(error):
                raise AssertionError(f"the error does not name it: {error}") from None
            return
    raise AssertionError("the turn did not fail")


CELLS: dict[str, Callable[[Rust], Awaitable[None]]] = {
    cell.__name__.replace("_", "-"): cell
    for cell in (
        pass_through_under_ours, editing_under_ours, tools_under_ours, polyfill_under_ours, ours_under_theirs,
        ours_between_theirs, built_in_under_theirs, theirs_as_a_proxy_of_ours, unknown_things_pass_ours_under_theirs,
        order_under_ours, cancel_under_both, death_under_ours,
    )
}  # fmt: skip


def main() -> int:
    """Build what is missing and run the cells; a run of all of them writes its section of docs/matrix.md."""
    folder = build()
    if folder is None:
        print("chains: there is no cargo on this machine; install Rust to run them", flush=True)
        return 0
    verdicts: dict[str, Verdict] = {}
    for name in sys.argv[1:] or CELLS:
        begun = time.monotonic()
        try:
            asyncio.run(asyncio.wait_for(CELLS[name](Rust(folder)), PATIENCE))
            verdict = Verdict("passed")
        except (AssertionError, DragomanError, TimeoutError) as error:
            verdict = Verdict("failed", str(error) or "it took too long")
        verdict.seconds = time.monotonic() - begun
        verdicts[name] = verdict
        print(f"{name:38} {verdict.progress_line}  {_what(name)}", flush=True)
    if not sys.argv[1:] and PAGE.exists():
        PAGE.write_text(with_section(PAGE.read_text(), CHAINS, section(verdicts)))
    return 0 if all(verdict.passed for verdict in verdicts.values()) else 1


def section(verdicts: Mapping[str, Verdict]) -> list[str]:
    """The lines of the section in docs/matrix.md."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    passed = sum(verdict.passed for verdict in verdicts.values())
    return [
        f"Run on {today} with version {_version()} of the SDK: {passed} of {len(verdicts)} pass. The checks are in",
        "[interop/chains.py](../interop/chains.py); [the guide](chains.md) says what a chain is.",
        "",
        "| | passes |",
        "|---|---|",
        *(
            f"| {_what(name)} | {f'{MARKS[verdict.word]} {verdict.note}'.strip()} |"
            for name, verdict in verdicts.items()
        ),
    ]


def _what(name: str) -> str:
    return (CELLS[name].__doc__ or "").strip().rstrip(".")


def _version() -> str:
    """The version of the official crate that the programs are built with."""
    lock = (PEERS / "rust_chain" / "Cargo.toml").read_text()
    found = re.search(r'^agent-client-protocol\b.*?"=?([0-9.]+)"', lock, re.MULTILINE)
    return found[1] if found else "?"


if __name__ == "__main__":
    sys.exit(main())
