"""What recording costs, and how fast a recording opens: figures of our own that no SDK has.

`latency` sends one message after the other through an echo, directly and with `dragoman inspect run` between, in turns;
`opening` writes a recording and has `dragoman inspect stats` and a program that only calls json.loads read it.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, perf_counter_ns

from bench.setup import environment

Figures = dict[str, float]

ECHO = "import os\nwhile data := os.read(0, 65536):\n    os.write(1, data)"
LOADS = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
TEXT = "a message of the usual length, or about so"
WARM = 300
BLOCK = 10_000  # lines written at once


def latency(python: str, dragoman: str, count: int, folder: Path) -> Figures:
    """Time of a message there and back, and what is added to each of its two ways, as p50 and as p99."""
    echo = (python, "-c", ECHO)
    direct = _there_and_back(echo, count)
    through = _there_and_back((dragoman, "inspect", "run", "--out", str(folder / "recording"), "--", *echo), count)
    figures: Figures = {}
    for name, part in (("", 0.5), ("_p99", 0.99)):
        before, after = direct[int(count * part)] / 1e3, through[int(count * part)] / 1e3
        figures |= {f"direct{name}_us": before, f"through{name}_us": after, f"added{name}_us": (after - before) / 2}
    return figures


def opening(python: str, dragoman: str, count: int, folder: Path) -> Figures:
    """Seconds for `stats` of so many frames, for json.loads of their lines, and the ratio; whole processes."""
    path = folder / "recording"
    with path.open("wb") as file:
        for block in _recording(count):
            file.write(block)
    stats = _seconds((dragoman, "inspect", "stats", str(path), "--json"))
    loads = _seconds((python, "-c", LOADS, str(path)))
    return {"stats_s": stats, "loads_s": loads, "ratio": stats / loads}


def _there_and_back(command: tuple[str, ...], count: int) -> list[int]:
    """Nanoseconds of each message, the shortest first."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    message = json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"text": TEXT}}).encode() + b"\n"
    times = []
    for _ in range(count + WARM):
        start, missing = perf_counter_ns(), len(message)
        os.write(process.stdin.fileno(), message)
        while missing:
            missing -= len(os.read(process.stdout.fileno(), missing))
        times.append(perf_counter_ns() - start)
    process.stdin.close()
    process.wait()
    process.stdout.close()
    return sorted(times[WARM:])


def _recording(count: int) -> Iterator[bytes]:
    """Turns of 1,000 lines: a prompt, chunks with a file call every fiftieth, an answer."""
    yield b'{"dragoman":"recording","format":1,"command":["bench"],"start":"","epoch":0}\n'
    lines = []
    for number in range(count):
        lines.append(_line(number))
        if len(lines) == BLOCK:
            yield b"".join(lines)
            lines.clear()
    yield b"".join(lines)


def _line(number: int) -> bytes:
    place, way = number % 1000, "a2c"
    if place == 0:
        prompt = [{"type": "text", "text": TEXT}]
        way = "c2a"
        message = {"id": number, "method": "session/prompt", "params": {"sessionId": "s", "prompt": prompt}}
    elif place == 999:
        message = {"id": number - 999, "result": {"stopReason": "end_turn"}}
    elif place % 50 == 1:
        params = {"sessionId": "s", "path": f"/w/{number}"}
        message = {"id": number, "method": "fs/read_text_file", "params": params}
    elif place % 50 == 2:
        way = "c2a"
        message = {"id": number - 1, "result": {"content": TEXT}}
    else:
        content = {"type": "text", "text": f"chunk {number:06} {TEXT[:28]}"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        message = {"method": "session/update", "params": {"sessionId": "s", "update": update}}
    text = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
    return f'{{"t":{number * 37},"dir":"{way}","msg":{text}}}\n'.encode()


def _seconds(command: tuple[str, ...]) -> float:
    start = perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment(), check=True)
    return perf_counter() - start
