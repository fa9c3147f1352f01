"""Chains: how many updates a conductor passes through its proxies, and how long one message takes.

The client and the agent are programs without a library, the same for every kind; conductor and proxies are ours or the
official Rust ones. Takes an interpreter, our command and the work; gives figures. Above is measure.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import IO, Any

from bench.setup import ROOT, environment

WARM = 50  # messages before the measured ones
DEADLINE = 120.0  # seconds for one chain
PEERS = ROOT / "bench" / "peers"

# Sees every message and refuses none: the cheapest proxy inside our conductor that is not skipped.
IN_PROCESS = "filter --method _none"

Figures = dict[str, float]


def chain(kind: str, python: str, dragoman: str, work: dict[str, Any]) -> Figures:
    """Updates per second through so many proxies, and what the chain adds to each way of a message, in microseconds."""
    agent = [python, "-S", str(PEERS / "chain_echo.py")]
    direct = _drive(agent, 1, work["pings"])
    through = _drive(_command(kind, python, dragoman, work, agent), work["count"], work["pings"])
    return through | {"added_us": (through["ping_us"] - direct["ping_us"]) / 2, "direct_us": direct["ping_us"]}


def _command(kind: str, python: str, dragoman: str, work: dict[str, Any], agent: list[str]) -> list[str]:
    count = work["proxies"]
    if kind == "rust":
        from interop.chains import build

        folder = build()
        if folder is None:
            raise OSError("there is no cargo on this machine")
        proxies = [shlex.quote(str(folder / "sdk_pass_through"))] * count
        return [str(folder / "sdk_conductor"), "agent", *proxies, shlex.join(agent)]
    proxy = IN_PROCESS if work.get("in_process") else shlex.join([python, str(PEERS / "chain_proxy.py")])
    return [dragoman, "conduct", *[proxy] * count, "--client-dialect", "v1", "--agent-dialect", "v1", "--", *agent]


def _drive(command: list[str], count: int, pings: int) -> Figures:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    source, sink = process.stdout, process.stdin
    try:
        hello = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        _ask(sink, source, "initialize", hello)
        _ask(sink, source, "session/new", {"cwd": str(Path.cwd()), "mcpServers": []})
        _ask(sink, source, "session/prompt", _prompt(1000))
        started = perf_counter()
        seen = _ask(sink, source, "session/prompt", _prompt(count))
        elapsed = perf_counter() - started
        if seen != count:
            raise OSError(f"{seen} of {count} updates arrived before the answer")
        times = []
        for _ in range(pings + WARM):
            begun = perf_counter_ns()
            _ask(sink, source, "_ping", {"text": "x" * 100})
            times.append(perf_counter_ns() - begun)
        ping = sorted(times[WARM:])[pings // 2] / 1e3
        return {"messages_per_second": count / elapsed, "ping_us": ping}
    finally:
        sink.close()
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
        source.close()


def _prompt(count: int) -> dict[str, Any]:
    return {"sessionId": "s", "prompt": [{"type": "text", "text": str(count)}]}


def _ask(sink: IO[bytes], source: IO[bytes], method: str, params: dict[str, Any]) -> int:
    """Send a request; return how many notifications came before its answer."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    os.write(sink.fileno(), json.dumps(message).encode() + b"\n")
    seen = 0
    for line in source:
        if b'"method"' in line[:100]:
            seen += 1
            continue
        answer = json.loads(line)
        if "error" in answer:
            raise OSError(f"{method}: {answer['error']}")
        return seen
    raise OSError(f"the chain ended during {method}")
