"""`dragoman attach`: act as an agent on stdio for an editor, with a host behind it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.cli import exit_codes
from dragoman.cli.connect.record import close_session_name
from dragoman.cli.host_client import api
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.messages import with_cli_advice
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, ConnectionFailed, Kind, ProtocolError, TransportClosed, Unreachable
from dragoman.schema.base import to_json
from dragoman.schema.session import SessionInfo
from dragoman.store.contract import Summary
from dragoman.transport.base import Transport

EPILOG = """\
Configure this command as the agent of your editor. The editor's messages go to
the host unchanged, in any dialect. Sessions stay on the host when the editor is
closed, and other users can join them. If the connection is lost, attach
reconnects and resumes the session, also after a restart of the host; stderr
says so.

HOST is a name from `dragoman hosts`, or a URL. Without it, attach uses the
default host, or else the one on this machine. The token comes from the file
that `dragoman hosts` keeps, from --token-file, or from DRAGOMAN_TOKEN.

With --session (a name, an id, or the beginning of an id), a session that the
editor opens is not a new one but this one: the editor gets its transcript, and
then sees the same as all members. The same holds for a session that the editor
wants to load or resume and that the host does not know. The editor needs no
support for this. A share link, which gives access to one session only, does the
same without --session.

exit codes:
    0  the editor disconnected
    2  wrong usage, no such session, or a file that cannot be used
    7  the host cannot be reached, or refuses access
  130  interrupted by Ctrl-C

examples:
  dragoman attach
  dragoman attach office
  dragoman attach office --agent claude
  dragoman attach https://office.example:7437 --token-file ~/.office-token
  dragoman attach office --session roof"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then relay messages until the editor disconnects."""
    parser = Parser(
        "attach", "[HOST] [--agent NAME] [--session SESSION]", "Connect an editor to an agent on a host.", EPILOG
    )
    parser.add_argument("host", nargs="?", metavar="HOST", help="a name from `dragoman hosts`, or a URL")
    parser.add_value("--host", "HOST", "the same as HOST", dest="host_option")
    parser.add_value("--agent", "NAME", "the agent of the host (its first one)", default="")
    parser.add_value("--session", "SESSION", "join this session instead of opening a new one")
    parser.add_value("--token-file", "FILE", "file with the access token (or set DRAGOMAN_TOKEN)")
    options = parser.read_options(arguments, "; the host starts the agents")
    if options.host is not None and options.host_option is not None:
        parser.error("give the host once: as HOST or with --host")
    options.host = options.host or options.host_option
    try:
        return run_loop(attach(api.resolve_host(options.host, options.token_file), options))
    except ConfigFault as fault:
        _report(str(fault))
        return exit_codes.USAGE
    except (ConnectionFailed, ProtocolError) as error:
        _report(str(error))
        return exit_codes.DIED


async def attach(host: api.HostTarget, options: argparse.Namespace) -> int:
    """Connect to the host, then relay messages."""
    from dragoman.roles.client.reconnect.transport import dial_reconnecting
    from dragoman.roles.proxy.attach import AttachSession, attach
    from dragoman.transport.remote.client.dial import dial_remote
    from dragoman.transport.stdio import stdio

    target_session = None
    host_info = await _fetch_host_info(host) if host.token or options.agent else {}
    api.check_agent(host, host_info, options.agent)
    linked = host_info.get("session")  # the session of a share link
    wanted = linked if options.session is None and isinstance(linked, str) else options.session
    if wanted is not None:
        summary = await _find_session(host, wanted, options.host)
        listed = SessionInfo(
            session_id=summary.session_id,
            cwd=summary.cwd or "/",
            title=summary.name or summary.title or UNSET,
            updated_at=summary.updated_at,
        )
        target_session = AttachSession(summary.session_id, to_json(listed), summary.created_at or summary.updated_at)

    async def dial() -> Transport:
        url = host.agent_url(options.agent)
        try:
            return await dial_remote(url, host.remote_settings, report=_report)
        except Unreachable as error:
            if error.status not in _NO_WEBSOCKET_STATUSES:
                raise
        return await dial_remote(url, msgspec.structs.replace(host.remote_settings, upgrade=False), report=_report)

    remote = await dial_reconnecting(dial, backoff=host.remote_settings.backoff, report=_report)
    editor = stdio(peer="the editor", chat_command=f"dragoman chat {host.flag}".strip())
    reason = await attach(editor, remote, target_session)
    if isinstance(reason, TransportClosed) and "the editor" in str(reason):
        return exit_codes.OK
    _report(str(reason))
    return exit_codes.DIED


async def _fetch_host_info(host: api.HostTarget) -> dict[str, Any]:
    """Return what the host says about itself and about us; empty for a server that is no Dragoman host."""
    try:
        host_info = await api.request_json(host, "GET", "/api/host")
    except (ProtocolError, ConnectionFailed):
        return {}  # the connection attempt reports errors
    return host_info if isinstance(host_info, dict) else {}


async def _find_session(host: api.HostTarget, name: str, host_argument: str | None) -> Summary:
    """Return the session to join; raises ConfigFault when it does not exist or this user may not see it."""
    store = HostStore(host)
    try:
        return await store.find(name)
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
        problem = (
            str(error) if not error.data else f"there is no session {name!r} at {host.display_name} that you may see"
        )
        # A share link is a secret, so it is not repeated.
        host_name = host_argument if host_argument and "://" not in host_argument else host.display_name
        close = await close_session_name(store, name, may_be_new=False) if error.data else ""
        hint = f"; did you mean {close}?" if close else ""
        listing = f"dragoman sessions --host {host_name}"
        raise ConfigFault(
            [f"{problem}{hint}; `{listing}` lists all sessions; without --session a new one is opened"]
        ) from None


# HTTP statuses of servers and proxies without WebSocket support: use two HTTP streams instead.
_NO_WEBSOCKET_STATUSES = frozenset({200, 400, 405, 406, 415, 426, 501})


def _report(text: str) -> None:
    print(f"dragoman attach: {sanitize_line(with_cli_advice(text))}", file=sys.stderr, flush=True)
