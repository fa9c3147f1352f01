"""`dragoman attach` with editors of every dialect, while its host is killed with SIGKILL and restarted."""

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

from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT, in_process
from tests.process_start import started

# Hand-written requests of an editor of each dialect. W is its folder, S its session.
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
        self.received: list[dict[str, Any]] = []
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
        """Return the answer to a request; messages before it are in `received`."""
        while line := self._lines.get(timeout=TIMEOUT):
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == id and "method" not in message:
                return message
            self.received.append(message)
        raise AssertionError(f"{self.dialect}: attach has ended: {self.process.wait()}")

    def await_text(self, text: str) -> None:
        """Wait for a message that contains this."""
        while text not in (line := self._lines.get(timeout=TIMEOUT)):
            self.received.append(json.loads(line))
        self.received.append(json.loads(line))

    def begin(self) -> None:
        self.answer(self.send("initialize"))
        result = self.answer(self.send("session/new"))["result"]
        self.session = result.get("sessionId") or result["session_id"]

    def agent_text(self) -> list[tuple[str, int]]:
        """Return the agent's text in its session, with the sequence numbers of the log."""
        texts: list[tuple[str, int]] = []
        for message in self.received:
            params = message["params"]
            assert self.session in (params.get("sessionId"), params.get("session_id")), message
            update = params.get("update") or {**params, **params["data"]}
            if (update.get("sessionUpdate") or update.get("@type") or update["type"]) in CHUNKS:
                content = update.get("content", update.get("text"))
                text = content["text"] if isinstance(content, dict) else content
                texts.append((str(text), params["_meta"]["dragoman"]["seq"]))
        return texts


class Host:
    """A host that is always at the same address, with its own folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, **{f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "STATE")}}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[Any]]:
        arguments = ["serve", "--json", "--bind", self.address, "--share", "user", "--", *EVERYTHING]
        where: dict[str, Any] = {"cwd": self.folder, "env": self.environ}
        with started([*DRAGOMAN, *arguments], **where, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process

    def link(self, session: str) -> str:
        """Return a share link to a session, for an editor."""
        body = json.dumps({"role": "editor", "seconds": 600, "name": "guest"}).encode()
        url = f"http://{self.address}/api/sessions/{session}/shares"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return f"http://{self.address}/acp?token={json.load(answer)['token']}"

    def attach(self, *arguments: str, to: str = "") -> subprocess.Popen[Any]:
        return subprocess.Popen(
            [*DRAGOMAN, "attach", to or f"http://{self.address}", *arguments],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def test_an_editor_of_any_dialect_loses_nothing_when_the_host_is_killed_during_a_turn(tmp_path: Path) -> None:
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
                editor.await_text("Wait 600 seconds")
            process.send_signal(signal.SIGKILL)
            process.wait(TIMEOUT)
        with host.serving() as process:
            for editor, id in zip(editors, waiting, strict=True):
                lost = editor.answer(id)["error"]
                assert (lost["code"], lost["data"]["kind"]) == (-32603, "connection_lost"), editor.dialect
                assert "prompt again" in lost["message"]
                before = editor.agent_text()
                assert "result" in editor.answer(editor.send("session/prompt", "/echo after")), editor.dialect
                assert [text for text, _ in editor.agent_text()[len(before) :]] == ["after"]
                numbers = [number for _, number in editor.agent_text()]
                assert (len(numbers), numbers) == (6, sorted(set(numbers)))
            patient, *others = editors
            others.append(guest := Editor("draft", host.attach(to=host.link(patient.session)), tmp_path))
            stack.callback(guest.process.kill)
            guest.begin()  # its new session is the one of the link
            assert guest.session == patient.session
            for editor in others:
                _, err = editor.process.communicate(timeout=TIMEOUT)
                assert editor.process.returncode == 0
                assert (
                    ("trying again for 10 min" in err) == ("1 session attached again" in err) == (editor is not guest)
                )
            code, err = ended(host.attach("--session", "nowhere"))
            assert (code, err.count("\n")) == (2, 1)
            assert "there is no session 'nowhere'" in err
            assert "dragoman sessions --host" in err
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT) == 0
        code, err = ended(host.attach())
        assert (code, err.count("\n")) == (7, 1)
        assert "connection refused" in err
        # A running attach keeps trying until it is interrupted.
        assert patient.process.stderr is not None
        lines = [patient.process.stderr.readline() for _ in range(3)]
        assert "trying again" in lines[-1], lines
        patient.process.send_signal(signal.SIGINT)
        assert (patient.process.wait(TIMEOUT), patient.process.stderr.read()) == (130, "")


def ended(process: subprocess.Popen[Any]) -> tuple[int, str]:
    """Return the exit code and stderr of a process without input."""
    _, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, err


def test_the_host_can_be_given_as_an_option() -> None:
    ran = in_process("attach", "--host", "nosuch")
    assert (ran.returncode, "there is no host 'nosuch'" in ran.stderr) == (2, True)
    twice = in_process("attach", "office", "--host", "office")
    assert (twice.returncode, "give the host once" in twice.stderr) == (2, True)
