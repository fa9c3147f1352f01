"""`dragoman agents search` and `show`, on the snapshot that ships and on an index of the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import main
from dragoman.config.agent_choice import AgentFacts, capability_names, choose, compare, find_capability


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("DRAGOMAN_OFFLINE", "1")
    monkeypatch.setenv("HOME", str(tmp_path))


def searched(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    main(["agents", "search", "--json", *arguments])
    agents: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["agents"]
    return agents


@pytest.mark.item("RG-02", "004-77")
def test_agents_are_found_by_words_capability_login_kind_and_platform(capsys: pytest.CaptureFixture[str]) -> None:
    assert [each["id"] for each in searched(capsys, "google")] == ["gemini"]
    loads = searched(capsys, "--can", "load,fork", "--login", "terminal")
    assert loads[0]["id"] == "claude-acp"
    assert loads[0]["meets"] == ["load", "fork", "login terminal"]
    assert loads[0]["known"]["source"] == "registry"
    assert loads[0]["known"]["date"] == "2026-08-20"
    assert "gemini" not in [each["id"] for each in loads]  # it is known not to fork
    unknown = next(each for each in loads if each["id"] == "fast-agent")
    assert unknown["unknown"] == ["load", "fork", "login terminal"]
    assert {each["id"] for each in searched(capsys, "--with", "uvx")} == {"fast-agent", "minion-code"}
    assert "kimi" not in [each["id"] for each in searched(capsys, "--platform", "darwin-x86_64")]
    everything = searched(capsys, "--platform", "darwin-x86_64", "--all")
    assert "only for" in next(each for each in everything if each["id"] == "kimi")["obstacle"]


def test_a_list_says_how_old_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "search", "goose"]) == 0
    shown = capsys.readouterr()
    assert "goose" in shown.out
    assert "as of 2026-10-01 (offline)" in shown.err
    assert main(["agents", "search", "no such words"]) == 1


def test_a_word_that_is_almost_an_id_is_answered_with_the_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "search", "clude"]) == 1
    assert "; did you mean claude-acp?" in capsys.readouterr().out
    assert main(["agents", "search", "xyzzyxyzzy"]) == 1
    assert "did you mean" not in capsys.readouterr().out


def test_an_unknown_capability_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["agents", "search", "--can", "lode"])
    assert ended.value.code == 2
    assert "did you mean load?" in capsys.readouterr().err


@pytest.mark.item("RG-03")
def test_show_names_downloads_hashes_vouchers_variables_and_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "show", "goose"]) == 0
    out = capsys.readouterr().out
    assert "goose-x86_64-unknown-linux-gnu.tar.bz2" in out
    assert "a5e25bc6d2f950837b579605162e8c84364fce38f74facb5adcb3ff963994d41  by the registry" in out
    assert "./goose acp" in out
    assert main(["agents", "show", "droid"]) == 0
    out = capsys.readouterr().out
    assert "DROID_DISABLE_AUTO_UPDATE=true" in out
    assert "droid@0.218.0" in out
    assert main(["agents", "show", "cursor"]) == 0
    assert "none: you are asked to trust the first download" in capsys.readouterr().out


def test_an_agent_that_no_registry_has_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "show", "gemni", "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["near"][0] == "gemini"
    assert "did you mean gemini" in shown.err


def test_a_folder_is_a_source_and_one_bad_entry_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = {"id": "mine", "name": "Mine", "version": "1", "distribution": {"npx": {"package": "mine@1.0.0"}}}
    (tmp_path / "registry.json").write_text(json.dumps({"version": "1.0.0", "agents": [good, {"id": "bad"}]}))
    assert main(["agents", "search", "--registry", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "mine" in shown.out
    assert "1 entry skipped: bad" in shown.err


def test_every_capability_has_one_short_name() -> None:
    names = capability_names()
    assert names["load"] == "loadSession"
    assert names["mcp-http"] == "mcpCapabilities.http"
    assert len(set(names.values())) == len(names)
    assert find_capability("loadSession") == "loadSession"
    assert find_capability("http") == "mcpCapabilities.http"
    assert find_capability("nothing") is None


def test_unknown_is_not_no() -> None:
    own = AgentFacts(source="initialize", date="2026-11-01", can={"loadSession": True}, logins=(), is_complete=True)
    matrix = AgentFacts(source="registry", date="2026-08-20", can={"loadSession": True}, logins=("agent",))
    image = ["loadSession", "promptCapabilities.image"]
    assert compare("a", own, image).lacks == ("image",)
    assert compare("b", matrix, image).unknown == ("image",)
    assert compare("c", None, image).unknown == ("load", "image")
    assert compare("a", own, [], ["none"]).fits
    assert compare("b", matrix, [], ["none"]).lacks == ("login none",)


def test_candidates_that_meet_all_come_first_then_installed_ones() -> None:
    some = AgentFacts(source="registry", date="", can={"loadSession": True})
    candidates = [
        compare("z", some, ["loadSession"], is_installed=False),
        compare("y", None, ["loadSession"]),
        compare("a", some, ["loadSession"], is_installed=False),
        compare("m", some, ["loadSession"]),
        compare("no", AgentFacts(source="initialize", date="", is_complete=True), ["loadSession"]),
    ]
    assert [each.name for each in choose(candidates)] == ["m", "a", "z", "y"]
