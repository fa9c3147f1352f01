"""The options of the actions on editors, and what they mean: the editor, its file, and what it starts."""

from __future__ import annotations

import argparse
import os

import msgspec

from dragoman.cli.connect.which_agent import resolve_agent
from dragoman.cli.parser import DEFAULT_HOST, Parser, unknown_word
from dragoman.config.config_file import NAME_PATTERN, load_config
from dragoman.config.paths import user_paths
from dragoman.editors import launch as ways
from dragoman.editors.launch import Launch
from dragoman.editors.table import ALIASES, EDITORS, Editor


def add_editor_argument(parser: Parser) -> None:
    """Add EDITOR, --file and --json."""
    parser.add_argument("editor", metavar="EDITOR", help=f"one of: {', '.join(EDITORS)}")
    parser.add_value("--file", "FILE", "the editor's file, if it is not in its usual place")
    parser.add_flag("--json", "print JSON")


def add_launch_options(parser: Parser) -> None:
    """Add the options that say what the editor starts."""
    parser.add_argument("agent", nargs="?", metavar="NAME", help="an agent of `dragoman agents` (the default agent)")
    parser.add_argument(
        "--via", choices=ways.WAYS, help="start the agent itself, or through Dragoman (what loses nothing)"
    )
    parser.add_argument(
        "--host",
        metavar="HOST",
        nargs="?",
        const=DEFAULT_HOST,
        help="attach to this host: a name from `dragoman hosts`, or a URL; without a value, the default host",
    )
    parser.add_value(
        "--agent", "NAME", "with --host: the agent of the host (its first one)", dest="host_agent", default=""
    )
    parser.add_value("--session", "SESSION", "with --host: join this session", default="")
    parser.add_value("--name", "TEXT", "name of the entry as the editor shows it (the name of the agent)", default="")


def read_editor(parser: Parser, options: argparse.Namespace) -> Editor:
    """Return the editor; exit with advice if the name is not known."""
    name = str(options.editor).lower()
    meant = ALIASES.get(name, (name,))
    if len(meant) > 1:
        parser.error(f"{options.editor} has more than one plug-in for agents; choose one of: {', '.join(meant)}")
    if meant[0] not in EDITORS:
        parser.error(unknown_word("editor", options.editor, [*EDITORS, *ALIASES]))
    return EDITORS[meant[0]]


def editor_path(options: argparse.Namespace, editor: Editor) -> str:
    """Return the file of the editor, as an absolute path."""
    return os.path.abspath(os.path.expanduser(options.file)) if options.file else editor.file(os.environ)


def read_launch(parser: Parser, options: argparse.Namespace, command: list[str]) -> tuple[Launch, list[str]]:
    """Return what the editor starts, and remarks for the user."""
    launch, remarks = _read_launch(parser, options, command)
    if NAME_PATTERN.fullmatch(options.name):  # a name that Lua and Lisp can use, too
        launch = msgspec.structs.replace(launch, name=options.name)
    return launch, remarks


def _read_launch(parser: Parser, options: argparse.Namespace, command: list[str]) -> tuple[Launch, list[str]]:
    if options.via == ways.ATTACH or options.host is not None:
        return _read_attach(parser, options, command), []
    for flag in ("host_agent", "session"):
        if getattr(options, flag):
            parser.error(f"--{flag.removeprefix('host_')} needs --host")
    agent = resolve_agent(parser, options.agent, command)
    title = options.name or agent.name
    way = options.via or ways.way_for(agent)
    remarks = []
    if options.via is None and way == ways.TRANSLATE:
        remarks.append(f"the editor starts {agent.name} through `dragoman translate`: {ways.way_reason(agent)}")
    if options.via == ways.DIRECT and agent.env:
        names = ", ".join(sorted(agent.env))
        remarks.append(f"the values of {names} go into the editor's file; --via translate keeps them in config.toml")
    if agent.cwd:
        remarks.append(f"the editor chooses the working directory, not {agent.cwd}")
    if agent.mode and way == ways.TRANSLATE:
        remarks.append(f"the editor chooses the mode, not {agent.mode}")
    if way == ways.DIRECT:
        return ways.launch_agent(agent, title), remarks
    is_configured = agent.name in load_config(user_paths().config_file).agents and not command
    return ways.launch_translate(agent, title, is_configured=is_configured), remarks


def _read_attach(parser: Parser, options: argparse.Namespace, command: list[str]) -> Launch:
    if command:
        parser.error("a host starts its agents itself: give --agent NAME instead of a command")
    if options.via not in (None, ways.ATTACH):
        parser.error(f"--host is for --via {ways.ATTACH}")
    host = "" if options.host in (None, DEFAULT_HOST) else options.host
    if ("://" in host and "@" in host.partition("://")[2].partition("/")[0]) or "token=" in host:
        parser.error(
            "the URL has a secret, and editors show their files; give the host a name with: dragoman hosts add"
        )
    agent = options.host_agent or options.agent or ""
    name = "-".join(word for word in (host if "://" not in host else "", agent) if word) or "dragoman"
    name = name if NAME_PATTERN.fullmatch(name) else "dragoman"
    return ways.launch_attach(host, agent, name, options.name or name, options.session)
