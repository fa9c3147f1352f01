"""`dragoman inspect run` as a client sees it: like the agent started directly."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.inspect.reader import RecordingReader
from dragoman.transport.recording.format import RecordedLine, restore_bytes
from tests.inspect.conversation import DRAGOMAN, TIMEOUT

CAT = [sys.executable, "-c", "import os\nwhile d := os.read(0, 65536):\n    while d: d = d[os.write(1, d):]"]


def under_inspection(out: Path, *agent: str, **more: object) -> subprocess.Popen[bytes]:
    pipes: dict[str, object] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [*DRAGOMAN, "inspect", "run", "--out", str(out), "--", *agent]
    return subprocess.Popen(command, **{**pipes, **more})  # type: ignore[call-overload, no-any-return]


def read(path: Path) -> tuple[RecordingReader, list[RecordedLine]]:
    reader = RecordingReader()
    return reader, list(reader.read(path.read_bytes().splitlines(keepends=True)))


def traffic(seed: int, size: int) -> bytes:
    """Messages, noise, blank lines, CR LF, broken UTF-8 and a huge line, in any mixture."""
    dice = random.Random(seed)
    kinds = (
        lambda: b'{"jsonrpc":"2.0","id":%d,"method":"x"}\n' % dice.randrange(1000),
        lambda: b"noise \x1b[31m\xff\xfe\n",
        lambda: b"\r\n",
        lambda: b"\n",
        lambda: '{"text":"日本語 🎉"}\r\n'.encode(),
        lambda: dice.randbytes(dice.randrange(200)),
        lambda: b'{"big":"' + b"x" * dice.randrange(200_000) + b'"}\n',
    )
    data = b""
    while len(data) < size:
        data += dice.choice(kinds)()
    return data


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bytes_are_forwarded_and_recorded_unchanged_in_any_chunking(seed: int, tmp_path: Path) -> None:
    data, dice = traffic(seed, 600_000), random.Random(seed)
    process = under_inspection(tmp_path / "r", *CAT)
    assert process.stdin is not None
    assert process.stdout is not None
    source, sink = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(source, False)
    sent, got = 0, bytearray()
    deadline = time.monotonic() + TIMEOUT
    while len(got) < len(data) and time.monotonic() < deadline:
        readable, writable, _ = select.select([sink], [source] if sent < len(data) else [], [], 1)
        if writable:
            try:
                sent += os.write(source, data[sent : sent + dice.choice((1, 17, 4096, 100_000))])
            except BlockingIOError:
                pass
        if readable:
            got += os.read(sink, dice.choice((1000, 70_000)))
    process.stdin.close()
    assert process.wait(TIMEOUT) == 0
    assert bytes(got) == data
    assert sink >= 0
    assert process.stdout.read() == b""
    reader, frames = read(tmp_path / "r")
    assert restore_bytes(frames, "c2a") == data
    assert restore_bytes(frames, "a2c") == data
    assert reader.problems == []
    assert reader.ending is not None
    assert reader.ending.frames == len(frames)
    assert [frame.t for frame in frames] == sorted(frame.t or 0 for frame in frames)
    process.stderr.close() if process.stderr else None


def test_stderr_and_the_exit_code_are_those_of_the_agent(tmp_path: Path) -> None:
    process = under_inspection(tmp_path / "r", "sh", "-c", "printf 'bad \\377' >&2; exit 7")
    out, err = process.communicate(timeout=TIMEOUT)
    assert (out, err, process.returncode) == (b"", b"bad \xff", 7)
    reader, frames = read(tmp_path / "r")
    assert [(frame.direction, frame.data) for frame in frames] == [("err", b"bad \xff")]
    assert reader.ending is not None
    assert reader.ending.status == 7


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_that_killed_the_agent_is_visible_to_the_client(number: signal.Signals, tmp_path: Path) -> None:
    process = under_inspection(tmp_path / "r", "sh", "-c", f"kill -{number.value} $$")
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == -number


def test_signals_reach_the_agent(tmp_path: Path) -> None:
    process = under_inspection(
        tmp_path / "r", "sh", "-c", "trap 'echo heard; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=TIMEOUT)
    assert (out, process.returncode) == (b"heard\n", 3)


def test_end_of_file_of_the_client_is_passed_to_the_agent(tmp_path: Path) -> None:
    process = under_inspection(tmp_path / "r", "sh", "-c", "cat; echo seen the end")
    out, _ = process.communicate(b"a\n", timeout=TIMEOUT)
    assert out == b"a\nseen the end\n"


def test_end_of_file_of_the_agent_is_passed_to_the_client_at_once(tmp_path: Path) -> None:
    process = under_inspection(tmp_path / "r", "sh", "-c", "exec >&-; read line; exit 5")
    assert process.stdout is not None
    assert process.stdout.read() == b""  # while the agent still runs
    assert process.poll() is None
    _, _ = process.communicate(b"go\n", timeout=TIMEOUT)
    assert process.returncode == 5


def test_a_client_that_does_not_read_slows_the_agent_and_loses_nothing(tmp_path: Path) -> None:
    flood = "import sys\nfor i in range(200000): sys.stdout.write(f'{i}\\n')\nprint('done', file=sys.stderr)"
    process = under_inspection(tmp_path / "r", sys.executable, "-c", flood)
    assert process.stdout is not None
    assert process.stderr is not None
    ready, _, _ = select.select([process.stderr], [], [], 1.0)
    assert ready == []  # the agent waits: its output is longer than all the pipes on the way
    assert process.stdout.read() == b"".join(b"%d\n" % number for number in range(200000))
    assert process.stderr.read() == b"done\n"
    assert process.wait(TIMEOUT) == 0


def test_no_process_of_the_agent_is_left_when_the_client_is_gone(tmp_path: Path) -> None:
    agent = "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 0.1; done"
    process = under_inspection(tmp_path / "r", "sh", "-c", agent)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()
    process.wait(TIMEOUT)
    deadline = time.monotonic() + TIMEOUT
    while os.path.exists(f"/proc/{child}") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{child}")


def test_a_full_disk_ends_the_recording_but_not_the_traffic() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    data = b'{"a":1}\n' * 5000
    process = under_inspection(Path("/dev/full"), *CAT)
    out, err = process.communicate(data, timeout=TIMEOUT)
    assert out == data
    assert err.count(b"No space left on device") == 1
    assert process.returncode == 0


def test_a_failed_start_of_the_agent_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    process = under_inspection(tmp_path / "r", "no-such-agent-anywhere")
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1
    assert err.decode().count("\n") == 1
    assert "no such command" in err.decode()


def test_only_the_owner_can_read_a_recording(tmp_path: Path) -> None:
    process = under_inspection(tmp_path / "r", "true")
    process.communicate(timeout=TIMEOUT)
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o600


def test_each_start_of_the_agent_has_a_recording_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "talk.ndjson"
    path.write_text("what was there before")
    process = under_inspection(path, "true")
    _, err = process.communicate(timeout=TIMEOUT)
    assert err.decode() == f"dragoman inspect: {path} exists; recording to {tmp_path}/talk-2.ndjson\n"
    assert path.read_text() == "what was there before"
    assert read(tmp_path / "talk-2.ndjson")[0].ending is not None


def test_without_a_file_the_recording_goes_to_the_state_folder(tmp_path: Path) -> None:
    done = subprocess.run([*DRAGOMAN, "inspect", "run", "--", "true"], capture_output=True, timeout=TIMEOUT)
    (found,) = (tmp_path / "state" / "dragoman" / "recordings").iterdir()
    assert str(found) in done.stderr.decode()
