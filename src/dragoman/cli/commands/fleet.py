"""`dragoman fleet`: the nodes of a fleet, draining one, moving a session, finishing an update."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from dragoman.cli import exit_codes
from dragoman.cli.messages import error_kind
from dragoman.cli.parser import Parser, parse_duration
from dragoman.cli.subcommands import Action, CommandGroup
from dragoman.cli.ui.format import report
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.config_file import load_config
from dragoman.config.host_section import store_address
from dragoman.config.paths import user_paths
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, ProtocolError, StoreFault
from dragoman.host.fleet import fleet_format, operate
from dragoman.store.fleet import Engine, EngineOptions
from dragoman.store.urls import open_engine
from dragoman.transport.remote.server.origin import current_user

T = TypeVar("T")

# How long a drained node lets turns end unless given otherwise. Seconds.
DEFAULT_GRACE = 600.0

EPILOG = """\
A fleet is several hosts (nodes) on one database: dragoman serve --store
postgresql://... on each machine. These commands talk to the database, so they
work from any machine that reaches it, and also while nodes are away.

A drained node starts nothing more. Sessions without a turn are let go at once,
others when their turn ends; clients connect again and continue at another node.
Then end the node, update it and start it again.

A session whose folder is on a node that is gone can be read everywhere, but not
prompted. `move` binds it to a folder of another node, where you have put its files.

Without --store, the database is that of `store` in [host] of config.toml.

exit codes:
   0  done
   1  there is no such node or session, or it cannot be done now
   2  wrong usage
  10  the database cannot be used

examples:
  dragoman fleet status --store postgresql://db/dragoman
  dragoman fleet drain n2 --for 10m --store postgresql://db/dragoman
  dragoman fleet move fix-roof --to n5 --cwd /srv/projects/roof
  dragoman fleet finish-upgrade"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "fleet",
        "[ACTION] [NODE | SESSION] [OPTIONS]",
        "Show the nodes of a fleet, drain a node, move a session.",
        _ACTIONS,
        EPILOG,
        default="status",
    )
    parser.add_argument("names", nargs="*", metavar="NODE|SESSION", help="drain: the node; move: the session")
    parser.add_value("--store", "URL", "the database of the fleet (that of config.toml)", default="")
    parser.add_value("--for", "TIME", "drain: how long turns may go on, as in 30s or 10m (10m)", dest="lifetime")
    parser.add_value("--to", "NODE", "move: the node that has the folder", default="")
    parser.add_value("--cwd", "DIR", "move: the folder of the session at that node", default="")
    parser.add_flag("--json", "print JSON")
    try:
        return parser.run(arguments)
    except ConfigFault as fault:
        return parser.fail(str(fault), exit_codes.USAGE)
    except ProtocolError as error:
        code = exit_codes.NO_STORE if isinstance(error, StoreFault) else exit_codes.FAILED
        return parser.fail(error.message, code, kind=error_kind(error))


def show_status(parser: Parser, options: argparse.Namespace) -> int:
    """Show nodes, engine and problems."""
    if options.names:
        parser.error("status takes no names")
    status = _run(options, operate.fleet_status)
    lines = [_node_line(node) for node in status["nodes"]] or ["there are no nodes"]
    lines += [f"engine: {status['engine']['name']}", *(f"  {line}" for line in status["engine"]["guarantees"])]
    lines += [f"problem: {line}" for line in status["problems"]]
    return report(options, status, [sanitize_line(line) for line in lines])


def _node_line(node: dict[str, Any]) -> str:
    counts = f"{node['sessions'] or 0} sessions, {node['awake'] or 0} awake, {node['clients'] or 0} clients"
    seen = f"renewed {node['age']:.0f} s ago" if node["state"] != "away" else f"away for {node['age']:.0f} s"
    labels = " ".join(node["labels"])
    return f"{node['node']:12}  {node['state']:8}  {node['version']:8}  {seen:20}  {counts}  {labels}".rstrip()


def drain_node(parser: Parser, options: argparse.Namespace) -> int:
    """Drain a node, and wait until it owns no session."""
    if len(options.names) != 1:
        parser.error("drain needs the name of one node, as in: drain n2")
    node, grace = options.names[0], parse_duration(parser, options.lifetime, DEFAULT_GRACE, "30s")

    async def drain(engine: Engine) -> bool:
        await operate.request_drain(engine, node, grace)
        if not options.json:
            print(f"{node} drains; waiting for its turns (Ctrl-C stops waiting, not draining)", flush=True)
        return await operate.wait_drained(engine, node, grace + operate.DRAIN_ANSWER_TIMEOUT)

    is_drained = _run(options, drain)
    line = f"{node} is drained" if is_drained else f"{node} still has sessions; see dragoman fleet status"
    code = exit_codes.OK if is_drained else exit_codes.FAILED
    return report(options, {"node": node, "drained": is_drained}, line, code)


def move_session(parser: Parser, options: argparse.Namespace) -> int:
    """Move a session to another node."""
    if len(options.names) != 1 or not options.to or not options.cwd:
        parser.error("move needs a session, a node and a folder, as in: move fix-roof --to n5 --cwd /srv/roof")
    if not os.path.isabs(options.cwd):
        parser.error("--cwd: the folder at the other node must be an absolute path")
    name, node, cwd = options.names[0], options.to, os.path.normpath(options.cwd)
    session = _run(options, lambda engine: operate.move_session(engine, name, node, cwd, current_user()))
    return report(
        options, {"session": session, "node": node, "cwd": cwd}, f"{session} runs at {node} in {cwd} from now on"
    )


def finish_upgrade(parser: Parser, options: argparse.Namespace) -> int:
    """Let all nodes write the newest format."""
    before, after = _run(options, fleet_format.finish_upgrade)
    line = f"all nodes write format {after}" + ("" if after != before else "; there was nothing to finish")
    return report(options, {"before": before, "after": after}, line)


def _run(options: argparse.Namespace, call: Callable[[Engine], Awaitable[T]]) -> T:
    """Call with the engine of the fleet."""
    here = user_paths()
    address = store_address(options.store or load_config(here.config_file).host.store, here)
    if not address.is_shared:
        raise ConfigFault([f"{address} is the store of one host; name the database of the fleet with --store"])

    async def run_call() -> T:
        engine = await open_engine(address, EngineOptions(trusts_engine=True))  # the nodes decide what is safe enough
        try:
            return await call(engine)
        finally:
            await engine.close()

    return run_loop(run_call())


_ACTIONS = {
    "status": Action(show_status, "status", "show nodes, engine and problems (the default)"),
    "drain": Action(drain_node, "drain NODE", "let a node finish its turns and give its sessions up"),
    "move": Action(move_session, "move SESSION", "bind a session to a folder of another node"),
    "finish-upgrade": Action(finish_upgrade, "finish-upgrade", "after all nodes are updated: write the new format"),
}
