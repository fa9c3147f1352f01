"""Exports: secrets are redacted, and nothing in a recording can run in the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.inspect import export
from dragoman.cli.main import main
from dragoman.inspect.page import render_page
from dragoman.inspect.reader import RecordingReader
from dragoman.inspect.redaction import RecordingRedactor
from dragoman.transport.recording.format import Header, RecordedLine
from dragoman.transport.recording.recorder import open_replacement
from tests.inspect.conversation import TALK, call, chunk, inspect, observed, write

SECRET = "correct-horse-battery"
SERVER = {"name": "m", "command": "x", "args": [], "env": [{"name": "PLACE", "value": SECRET}]}
HEADERS = {
    "name": "h",
    "type": "http",
    "url": "http://x",
    "headers": [{"name": "X-A", "value": "Bearer very-secret-token"}],
}


def exported(path: Path, *options: str) -> bytes:
    done = inspect("export", path, *options)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_settings_of_mcp_servers_are_redacted_wherever_they_occur(tmp_path: Path) -> None:
    opening = call(1, "session/new", {"cwd": "/w", "mcpServers": [SERVER, HEADERS]})
    talk = [("a2c", chunk(f"early {SECRET}")), ("c2a", opening), ("a2c", f"noise {SECRET}".encode())]
    copy = exported(write(tmp_path / "r", [*talk, ("a2c", chunk("late very-secret-token"))]))
    assert SECRET.encode() not in copy
    assert b"very-secret-token" not in copy
    assert b'"name":"PLACE"' in copy
    assert json.loads(copy.splitlines()[0])["redacted"] is True


@pytest.mark.parametrize(
    "params",
    [
        {"methodId": "login", "_meta": {"x": 1}, "token": "tok-1234567890"},
        {"method": "login", "credentials": {"user": "u", "deep": ["tok-1234567890"]}},
    ],
)
def test_login_credentials_are_redacted(params: dict[str, Any], tmp_path: Path) -> None:
    copy = exported(write(tmp_path / "r", [("c2a", call(1, "authenticate", params))]))
    assert b"tok-1234567890" not in copy
    assert b"login" in copy


def test_known_formats_of_keys_are_redacted(tmp_path: Path) -> None:
    copy = exported(write(tmp_path / "r", [("a2c", chunk("use sk-abcdefghijklmnopqrstuv please"))]))
    assert b"sk-abcdefghijkl" not in copy


def test_text_without_secrets_is_unchanged(tmp_path: Path) -> None:
    path = write(tmp_path / "r")
    before = [each.data for each in RecordingReader().read(path.read_bytes().splitlines(keepends=True))]
    after = [each.data for each in RecordingReader().read(exported(path).splitlines(keepends=True))]
    assert after == before


def test_secrets_are_kept_with_the_option(tmp_path: Path) -> None:
    path = write(tmp_path / "r", [("c2a", call(1, "session/new", {"cwd": "/", "mcpServers": [SERVER]}))])
    assert SECRET.encode() in exported(path, "--keep-secrets")


HOSTILE = "</script><script>alert(1)</script><!-- {{SCRIPT}} \u2028 \x00 <img src=x onerror=alert(2)>"


def embedded(text: str) -> Any:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(data)


def test_hostile_content_cannot_run_in_the_page() -> None:
    talk: list[tuple[str, Any]] = [*TALK[:5], ("a2c", chunk(HOSTILE)), ("a2c", HOSTILE.encode())]
    _, events = observed(talk)
    text = render_page([(Header(command=[HOSTILE]), events)], HOSTILE)
    assert "<img" not in text
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert HOSTILE.strip("\x00") in json.loads(embedded(text)["rows"][5][13])["params"]["update"]["content"]["text"]


def test_the_page_runs_only_its_own_script_and_loads_nothing() -> None:
    text = render_page([(Header(), observed()[1])], "talk")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    assert "innerHTML" not in text


def test_the_page_pairs_requests_and_lists_turns_and_tool_calls() -> None:
    data = embedded(render_page([(Header(), observed()[1])], "talk"))
    assert data["lines"] == ["Client", "Agent"]
    assert [row[8] for row in data["rows"]] == [1, 0, 3, 2, 11, None, None, None, 9, 8, None, 4]
    assert [(turn["first"], turn["last"], turn["stop"]) for turn in data["turns"]] == [(4, 11, "end_turn")]
    assert [call[:5] for call in data["calls"]] == [["Read", "read", "completed", 7, 10]]


def test_two_recordings_of_a_proxy_make_three_lifelines_sorted_by_time() -> None:
    behind = Header(epoch=501)
    data = embedded(render_page([(Header(epoch=1), observed()[1]), (behind, observed()[1])], "talk"))
    assert data["lines"] == ["Client", "Proxy", "Agent"]
    assert [row[15] for row in data["rows"][:4]] == [0, 1, 0, 1]
    assert data["rows"][1][0] == data["rows"][0][0] + 500
    assert len(data["turns"]) == 1  # what happens behind the proxy is the same turn


def test_an_empty_recording_can_be_exported(tmp_path: Path) -> None:
    assert embedded(exported(write(tmp_path / "r", []), "--html").decode())["rows"] == []


@pytest.mark.parametrize("options", [[], ["--html"], ["--html", "--with"]])
def test_an_export_never_overwrites_its_source(options: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "r")
    before = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    source = write(tmp_path / "other") if "--with" in options else path
    done = inspect("export", source, *options, *([path] if "--with" in options else []), "--out", tmp_path / "link")
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"is the recording itself; choose another file with --out" in done.stderr
    assert path.read_bytes() == before


def test_an_earlier_export_is_replaced_only_by_a_complete_one(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    target.write_bytes(b"the copy of yesterday")

    def broken() -> None:
        with open_replacement(str(target)) as file:
            file.write(b"half of")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("copy", b"the copy of yesterday")]
    with open_replacement(str(target)) as file:
        file.write(b"today")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("copy", b"today")]
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_warning_is_printed_for_a_very_large_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export, "LARGE_PAGE", 1000)
    words = ["inspect", "export", str(write(tmp_path / "r")), "--html", "--out", str(tmp_path / "r.html")]
    assert main(words) == 0
    output = capsys.readouterr().err
    assert output.startswith("dragoman inspect: the page has 12 messages and ")
    assert output.endswith("KiB: browsers need some time to open it\n")


def test_secret_names_and_cached_strings_are_redacted_alike() -> None:
    cleaner = RecordingRedactor(["repeated-secret"])
    message = b'{"a":["repeated-secret","plain"],"b":"plain","n":1,"none":null,"apiKey":"plain","x":"repeated-secret"}'
    for _ in range(2):
        clean = json.loads(cleaner.redact(RecordedLine(1, 0, "a2c", message)).data)
        assert clean == {
            "a": ["[redacted]", "plain"],
            "b": "plain",
            "n": 1,
            "none": None,
            "apiKey": "[redacted]",
            "x": "[redacted]",
        }
