"""`dragoman attach` under editors of every dialect, while its host is killed with -9 and started again."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cli.process import DRAGOMAN, EVERYTHING, PATIENCE
from tests.process_start import started

# How an editor of each dialect says what is needed here, by hand. W stands for its folder, S for its session.
W, S, TEXT = "W", "S", [{"type": "text", "text": "TEXT"}]
SPOKEN: dict[str, dict[str, Any]] = {
    "v1": {
        "initialize": {"protocolVersion": 1, "clientCapabilities": {}},
        "session/new": {"cwd": W, "mcpServers": []},
        "session/prompt": {"sessionId": S, "prompt": TEXT},
    },
    "banjo": {
        "initialize": {"protocolVersion": 1, "clientCapabilities": {}},
        "session/new": {"cwd": W},
        "session/prompt": {"sessionId": S, "prompt": TEXT},
    },
    "2025.1": {
        "initialize": {
            "protocol_version": "2025.1",
            "client_info": {"name": "editor", "version": "1"},
            "capabilities": {},
            "working_directory": W,
            "mcp_servers": [],
        },
        "session/new": {"session_id": "a name of its own"},
        "session/prompt": {"session_id": S, "content": TEXT},
    },
    "crow": {
        "initialize": {"protocol_version": 1, "client_capabilities": {}},
        "session/new": {"cwd": W, "mcpServers": []},
        "session/prompt": {"session_id": S, "prompt": TEXT},
    },
    "draft": {
        "initialize": {"protocolVersion": 1, "clientInfo": {"name": "editor"}, "capabilities": {}},
        "session/new": {"workingDirectory": W},
        "session/prompt": {"sessionId": S, "content": TEXT},
    },
}
CHUNKS = frozenset({"agent_message_chunk", "agent_message_text"})


class Editor:
    """A program that starts `dragoman attach` as its agent."""

    def __init__(self, dialect: str, process: subprocess.Popen[Any], folder: Path) -> None:
        self.dialect = dialect
        self.process = process
        self.session = ""
        self.heard: list[dict[str, Any]] = []
        self._folder = str(folder)
        self._id = 0
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def send(self, method: str, text: str = "") -> int:
        self._id += 1
        params = json.dumps(SPOKEN[self.dialect][method]).replace('"TEXT"', json.dumps(text))
        params = params.replace('"W"', json.dumps(self._folder)).replace('"S"', json.dumps(self.session))
        assert self.process.stdin is not None
        self.process.stdin.write(f'{{"jsonrpc":"2.0","id":{self._id},"method":"{method}","params":{params}}}\n')
        self.process.stdin.flush()
        return self._id

    def answer(self, id: int) -> dict[str, Any]:
        """The answer to a request; what comes before it is in `heard`."""
        while line := self._lines.get(timeout=PATIENCE):
            said: dict[str, Any] = json.loads(line)
            if said.get("id") == id and "method" not in said:
                return said
            self.heard.append(said)
        raise AssertionError(f"{self.dialect}: attach has ended: {self.process.wait()}")

    def hear(self, text: str) -> None:
        """Wait until something is said that has this in it."""
        while text not in (line := self._lines.get(timeout=PATIENCE)):
            self.heard.append(json.loads(line))
        self.heard.append(json.loads(line))

    def begin(self) -> None:
        self.answer(self.send("initialize"))
        result = self.answer(self.send("session/new"))["result"]
        self.session = result.get("sessionId") or result["session_id"]

    def said(self) -> list[tuple[str, int]]:
        """What the agent said in its session, with the numbers of the log."""
        told: list[tuple[str, int]] = []
        for message in self.heard:
            params = message["params"]
            assert self.session in (params.get("sessionId"), params.get("session_id")), message
            update = params.get("update") or {**params, **params["data"]}
            if (update.get("sessionUpdate") or update.get("@type") or update["type"]) in CHUNKS:
                content = update.get("content", update.get("text"))
                text = content["text"] if isinstance(content, dict) else content
                told.append((str(text), params["_meta"]["dragoman"]["seq"]))
        return told


class Host:
    """A host that is always at the same address, with folders of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, **{f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "STATE")}}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.place = f"127.0.0.1:{free.getsockname()[1]}"

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[Any]]:
        words = ["serve", "--json", "--bind", self.place, "--share", "user", "--", *EVERYTHING]
        where: dict[str, Any] = {"cwd": self.folder, "env": self.environ}
        with started([*DRAGOMAN, *words], **where, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process

    def link(self, session: str) -> str:
        """A share link to a session, for somebody who may prompt there."""
        body = json.dumps({"role": "editor", "seconds": 600, "name": "guest"}).encode()
        url = f"http://{self.place}/api/sessions/{session}/shares"
        asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return f"http://{self.place}/acp?token={json.load(answer)['token']}"

    def attach(self, *words: str, to: str = "") -> subprocess.Popen[Any]:
        return subprocess.Popen(
            [*DRAGOMAN, "attach", to or f"http://{self.place}", *words],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def test_an_editor_of_any_dialect_loses_nothing_when_the_host_is_killed_in_a_turn(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with ExitStack() as stack:
        with host.serving() as process:
            editors = [Editor(dialect, host.attach(), tmp_path) for dialect in SPOKEN]
            for editor in editors:
                stack.callback(editor.process.communicate)
                stack.callback(editor.process.kill)
            for editor in editors:
                editor.begin()
                editor.answer(editor.send("session/prompt", "/stream 5 10"))
            waiting = [editor.send("session/prompt", "/slow 600") for editor in editors]
            for editor in editors:
                editor.hear("Wait 600 seconds")
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
        with host.serving() as process:
            for editor, id in zip(editors, waiting, strict=True):
                lost = editor.answer(id)["error"]
                assert (lost["code"], lost["data"]["kind"]) == (-32603, "connection_lost"), editor.dialect
                assert "prompt again" in lost["message"]
                before = editor.said()
                assert "result" in editor.answer(editor.send("session/prompt", "/echo after")), editor.dialect
                assert [text for text, _ in editor.said()[len(before) :]] == ["after"]
                numbers = [number for _, number in editor.said()]
                assert (len(numbers), numbers) == (6, sorted(set(numbers)))
            patient, *others = editors
            others.append(guest := Editor("draft", host.attach(to=host.link(patient.session)), tmp_path))
            stack.callback(guest.process.kill)
            guest.begin()  # what it takes for a new session is the one that the link opens
            assert guest.session == patient.session
            for editor in others:
                _, err = editor.process.communicate(timeout=PATIENCE)
                assert editor.process.returncode == 0
                assert ("trying again for 10 min" in err) == ("1 session joined again" in err) == (editor is not guest)
            code, err = ended(host.attach("--session", "nowhere"))
            assert (code, err.count("\n")) == (2, 1)
            assert "there is no session 'nowhere'" in err
            assert "dragoman sessions --host" in err
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        code, err = ended(host.attach())
        assert (code, err.count("\n")) == (7, 1)
        assert "nobody listens there" in err
        # Who is there already goes on trying, until somebody has enough.
        assert patient.process.stderr is not None
        lines = [patient.process.stderr.readline() for _ in range(3)]
        assert "trying again" in lines[-1], lines
        patient.process.send_signal(signal.SIGINT)
        assert (patient.process.wait(PATIENCE), patient.process.stderr.read()) == (130, "")


def ended(process: subprocess.Popen[Any]) -> tuple[int, str]:
    """How a process ended that has nothing to read, and what stood on its stderr."""
    _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err
