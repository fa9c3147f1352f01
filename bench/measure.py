"""Runs one job for one kind: takes a Job and a Kind, gives its figures or why there are none.

Starts the client (which starts its agent), or the agent alone for start-up, or an interpreter for imports.
Each measurement is a process group of its own with a deadline; knows nothing of medians or tables.
"""

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from bench import chains, commands, recordings, registry, tui, web
from bench.rows import Job
from bench.setup import ROOT, Kind, Kinds, environment, opencode

DEADLINE = 180.0  # seconds; the slowest job takes about 10 on two busy cores
TIMEOUT = 5.0  # seconds for a started agent to leave after its stdin is closed
STARTS = 5  # a start is short and noisy, so one measurement is the median of several
QUOTED = 300  # characters of stderr that explain a failure

FILE_TEXT = "".join(f"line {number} of a file that an agent reads\n" for number in range(100))
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": 1,
        "clientCapabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}

PROGRAMS = {
    "guard": "guarding", "lsp": "diagnosing", "mcp": "calling", "store": "storing", "host": "hosting",
    "fleet": "relaying", "engine": "engines", "scale": "scaling",
}  # fmt: skip

Figures = dict[str, float]


class Failed(Exception):
    """The measurement gave no figures; says why."""


def measure(job: Job, kind: Kind, kinds: Kinds) -> Figures:
    """Run the job once. Raises Failed."""
    match job.way:
        case "start":
            return {"time_ms": median(_start(kind) for _ in range(STARTS)) * 1e3}
        case "import":
            return _imports(kind)
        case way if way in PROGRAMS:
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                return _ours(job, kind, Path(folder).resolve())
        case "command":
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                return _command(job, kind, kinds, Path(folder).resolve())
        case "tui":
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                return _tui(job, kinds, Path(folder).resolve())
        case "registry":
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                return _registry(job, kind, kinds, Path(folder).resolve())
        case "web":
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                return _web(job, kind, kinds, Path(folder).resolve())
        case "chain":
            try:
                return chains.chain(kind.name, kinds.named["ours"].bare[0], kinds.dragoman, job.work)
            except (OSError, subprocess.SubprocessError) as error:
                raise Failed(str(error)) from error
        case "latency" | "opening":
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                return _record(job, kind, kinds, Path(folder))
        case _:
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                place = Path(folder).resolve()
                client = {"remote": kind.remote, "v2": kind.client_v2}.get(job.way, kind.client)
                return _converse(job, client, _agent(job, kind, kinds, place), place)


def _command(job: Job, kind: Kind, kinds: Kinds, folder: Path) -> Figures:
    try:
        return commands.start(kind.client[0], kinds.dragoman, job.work["starts"], folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(str(error)) from error


def _tui(job: Job, kinds: Kinds, folder: Path) -> Figures:
    try:
        match job.work["work"]:
            case "start":
                return tui.start(kinds.dragoman, job.work["starts"], folder)
            case "stream":
                return tui.stream(kinds.dragoman, job.work["count"], folder)
            case _:
                return tui.message(job.work["count"])
    except (OSError, TimeoutError) as error:
        raise Failed(str(error)) from error


def _registry(job: Job, kind: Kind, kinds: Kinds, folder: Path) -> Figures:
    count = job.work["count"]
    try:
        match job.work["work"]:
            case "start":
                return registry.start(kind.client[0], kinds.dragoman, count, folder)
            case "search":
                return registry.search(kinds.dragoman, count, folder)
            case "install-pypi":
                return registry.install_pypi(kinds.dragoman, count, folder)
        return registry.install(kinds.dragoman, count, folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(str(error)) from error


def _web(job: Job, kind: Kind, kinds: Kinds, folder: Path) -> Figures:
    count = job.work.get("count", 0)
    try:
        match job.work["work"]:
            case "weight":
                return web.weight()
            case "paint":
                return web.paint(kinds.dragoman, opencode(), max(1, count), folder)
            case "stream":
                return web.stream(kinds.dragoman, max(1, count), folder)
        return web.long_session(kind.client[0], kinds.dragoman, count, folder)
    except (ImportError, OSError, subprocess.SubprocessError) as error:
        raise Failed(str(error)) from error


def _record(job: Job, kind: Kind, kinds: Kinds, folder: Path) -> Figures:
    work = recordings.latency if job.way == "latency" else recordings.opening
    try:
        return work(kind.bare[0], kinds.dragoman, job.work["count"], folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(str(error)) from error


def _agent(job: Job, kind: Kind, kinds: Kinds, folder: Path) -> tuple[str, ...]:
    if job.way == "remote":
        return kind.server
    if job.way == "v2":
        return kind.agent_v2
    if job.way == "inspect":
        return (kinds.dragoman, "inspect", "run", "--out", str(folder / "recording"), "--", *kind.agent)
    if job.way == "translate":
        return (kinds.dragoman, "translate", *_dialects("v1", "v1"), "--", *kind.agent)
    if job.way == "interpret":
        dialect = job.work["dialect"]
        everything = (kinds.dragoman, "agent", "everything", "--dialect", dialect)
        client = "v2" if job.work.get("version") == 2 else "v1"
        return (kinds.dragoman, "translate", *_dialects(client, dialect), "--", *everything)
    return kind.agent


def _dialects(client: str, agent: str) -> tuple[str, ...]:
    return ("--client-dialect", client, "--agent-dialect", agent)


def _converse(job: Job, client: tuple[str, ...], agent: tuple[str, ...], folder: Path) -> Figures:
    """Have the client do the work in `folder`; its last line of stdout are the figures."""
    work = job.work | {"cwd": str(folder)}
    if "path" in work:
        (folder / work["path"]).write_text(FILE_TEXT)
        work["path"] = str(folder / work["path"])
    printed = _run((*client, json.dumps(work), *agent), ROOT)
    try:
        figures: Figures = json.loads(printed.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise Failed(f"the client printed no figures: {printed[-QUOTED:]!r}") from error
    return figures


def _ours(job: Job, kind: Kind, folder: Path) -> Figures:
    """What guarding, keeping and hosting cost; only ours has them."""
    python = kind.client[0]
    work = json.dumps(job.work | {"cwd": str(folder)})
    figures: Figures = json.loads(_run((python, "-m", f"bench.peers.{PROGRAMS[job.way]}", work), ROOT).splitlines()[-1])
    return figures


def _start(kind: Kind) -> float:
    """Seconds from starting the agent to its whole answer to initialize."""
    started = perf_counter()
    process = subprocess.Popen(
        kind.starter, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment(), cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        elapsed = perf_counter() - started
        if not line or "protocolVersion" not in json.loads(line).get("result", {}):
            raise Failed(f"the agent answered initialize with {line[:QUOTED]!r}")
        return elapsed
    except (OSError, ValueError) as error:
        raise Failed(f"no answer to initialize: {error}") from error
    finally:
        _leave(process)


def _leave(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    try:
        process.stdin.close()
    except OSError:
        pass  # it has left already
    try:
        process.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finally:
        assert process.stdout is not None
        process.stdout.close()


def _imports(kind: Kind) -> Figures:
    """The whole process, the part the import adds, and the whole process that also uses the main names."""
    rounds = [tuple(_duration(command, kind.folder) for command in (kind.bare, kind.imports, kind.uses))
              for _ in range(STARTS)]  # fmt: skip
    bare, total, uses = (median(column) * 1e3 for column in zip(*rounds, strict=True))
    return {"total_ms": total, "net_ms": total - bare, "uses_ms": uses}


def _duration(command: tuple[str, ...], folder: Path) -> float:
    started = perf_counter()
    _run(command, folder)
    return perf_counter() - started


def _run(command: tuple[str, ...], folder: Path) -> str:
    """Run to the end in a process group of its own; what it printed. Raises Failed."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(), cwd=folder, start_new_session=True,
    )  # fmt: skip
    try:
        printed, complaint = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failed(f"not done after {DEADLINE:g} s") from None
    if process.returncode != 0:
        lines = [line for line in complaint.strip().splitlines() if line.strip()]
        raise Failed(f"exit status {process.returncode}: {_reason(lines)}")
    return printed


def _reason(lines: list[str]) -> str:
    """The line of a stack trace that says what was wrong: the last one that names an error, else the last."""
    named = [line for line in lines if "Error" in line and not line.lstrip().startswith("at ")]
    return (named or lines or ["nothing on stderr"])[-1].strip()[:QUOTED]
