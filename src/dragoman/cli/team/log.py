"""`dragoman team list`, `log`, `files` and `leases`: the teams of config.toml, and what teams did."""

from __future__ import annotations

import os
from typing import Any

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.cli.team.event_file import event_files, is_running, read_events
from dragoman.cli.ui.format import report
from dragoman.config.config_file import load_config
from dragoman.config.paths import user_paths

_ENDS = frozenset({"answered", "failed", "cancelled"})
_WORDS = {
    "opened": "opened its session",
    "asked": "was asked",
    "answered": "answered",
    "failed": "failed",
    "told": "was told",
    "handed_over": "took over",
    "wrote": "wrote",
    "outside": "ran a command that changed",
    "refused": "was refused",
    "cancelled": "was cancelled",
}


def run_list(command: str, arguments: list[str]) -> int:
    """List the teams of config.toml."""
    parser = Parser(command, "[--json]", "List your teams.", "")
    parser.add_flag("--json", "print JSON")
    options = parser.read_options(arguments)
    teams = load_config(user_paths().config_file).teams
    rows: list[dict[str, Any]] = [
        {
            "name": team.name,
            "agents": dict(team.agents),
            "primary": team.primary or next(iter(team.agents)),
            "isolate": team.isolate,
        }
        for team in teams.values()
    ]
    width = max((len(str(row["name"])) for row in rows), default=0)
    lines = [
        f"{row['name']:{width}}  {', '.join(f'{name}={target}' for name, target in row['agents'].items())}"
        f"{'  isolated' if row['isolate'] else ''}"
        for row in rows
    ]
    advice = "no teams; add [teams.NAME] to config.toml, or use --agents (dragoman team --help)"
    return report(options, {"teams": rows}, lines or [advice])


def run_log(command: str, arguments: list[str]) -> int:
    """Print what happened in a team."""
    options, events = _read(command, arguments, "Show who asked whom and what happened in the latest team.")
    if events is None:
        return exit_codes.FAILED
    lines = [_line(event) for event in events if event.get("kind") in _WORDS]
    return report(options, {"running": is_running(events), "events": events}, lines or ["nothing happened yet"])


def _line(event: dict[str, Any]) -> str:
    word = _WORDS[str(event["kind"])]
    by = f" by {event['by']}" if event.get("by") and event["kind"] in ("asked", "told") else ""
    what = str(event.get("path") or "")
    text = " ".join(str(event.get("text", "")).split())
    return f"{str(event.get('time', ''))[11:19]}  {event.get('agent', '')} {word}{by} {what or text}".rstrip()[:200]


def run_files(command: str, arguments: list[str]) -> int:
    """Print who changed which file, and the writes that were refused."""
    options, events = _read(command, arguments, "Show who changed which file in the latest team.")
    if events is None:
        return exit_codes.FAILED
    files: dict[str, list[str]] = {}
    for event in events:
        if event.get("kind") in ("wrote", "outside") and event["agent"] not in files.setdefault(event["path"], []):
            files[event["path"]].append(event["agent"])
    refused = [event for event in events if event.get("kind") == "refused"]
    lines = [f"{_short(path)}: {', '.join(names)}" for path, names in files.items()] or ["no file was changed"]
    lines += [f"refused: {event['agent']}: {event.get('text', '')}" for event in refused]
    return report(options, {"files": files, "refused": refused}, lines)


def run_leases(command: str, arguments: list[str]) -> int:
    """Print which agent writes which files now."""
    options, events = _read(command, arguments, "Show which agent of the latest team writes which files now.")
    if events is None:
        return exit_codes.FAILED
    held: dict[str, str] = {}
    for event in events if is_running(events) else ():
        if event.get("kind") == "wrote":
            held[event["path"]] = event["agent"]
        elif event.get("kind") in _ENDS:
            held = {path: agent for path, agent in held.items() if agent != event["agent"]}
    lines = [f"{_short(path)}: {agent}" for path, agent in held.items()] or ["no leases"]
    return report(options, {"leases": held}, lines)


def _read(command: str, arguments: list[str], purpose: str) -> tuple[Any, list[dict[str, Any]] | None]:
    parser = Parser(command, "[SESSION] [--json]", purpose, "")
    parser.add_argument("session", nargs="?", metavar="SESSION", help="a session of a team (the latest)")
    parser.add_flag("--json", "print JSON")
    options = parser.read_options(arguments)
    paths = event_files(os.path.join(user_paths().state, "teams"))
    if options.session is not None:
        paths = [path for path in paths if os.path.basename(path).startswith(options.session)]
    if not paths:
        which = f"no team has a session {options.session!r}" if options.session else "no team has worked yet"
        parser.fail(which)
        return options, None
    return options, list(read_events(paths[0]))


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
