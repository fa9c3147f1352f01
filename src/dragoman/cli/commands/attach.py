"""`dragoman attach`: be an agent on stdio for an editor, with a host behind it where the sessions stay."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.cli import exit_codes
from dragoman.cli.host_client import api
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.messages import with_cli_advice
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, ConnectionFailed, Kind, ProtocolError, TransportClosed, Unreachable
from dragoman.schema.base import to_json
from dragoman.schema.session import SessionInfo
from dragoman.store.contract import Summary
from dragoman.transport.base import Transport

EPILOG = """\
Put it where the editor starts its agent. What the editor says goes to the host as it is, in whatever dialect; sessions
stay there when the editor is closed, and others can be in them. A cut connection is mended, a host that was restarted
is joined again where it was left, and stderr says so.

HOST is a name of `dragoman hosts` or an URL; without it the default host is meant, else the one on this machine. The
token comes from the file that `dragoman hosts` keeps, from --token-file, or from DRAGOMAN_TOKEN.

With --session, the session that the editor opens is not a new one but this one (a name, an id, or the beginning of
one): what was said is told, and then everybody in it sees the same. So is one that it wants to load or resume and that
the host does not know; others that are there stay themselves. Editors need not know of it. A share link, which opens
one session and no other, does the same by itself.

exit codes:
  0  the editor has left      2  wrong usage, no such session, or a file that cannot be used
  7  the host cannot be reached, or does not let you in      130  ended by Ctrl-C

examples:
  dragoman attach
  dragoman attach office
  dragoman attach office --agent claude
  dragoman attach https://office.example:7437 --token-file ~/.office-token
  dragoman attach office --session roof"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then pass frames until the editor leaves."""
    parser = Parser("attach", "[HOST] [--agent NAME] [--session SESSION]", "Give an editor an agent of a host.", EPILOG)
    parser.add_argument("host", nargs="?", metavar="HOST", help="a name of `dragoman hosts`, or an URL")
    parser.add_argument("--agent", metavar="NAME", default="", help="which agent of the host (its first)")
    parser.add_argument("--session", metavar="SESSION", help="land in this session instead of a new one")
    parser.add_argument("--token-file", metavar="FILE", help="where the token is (or DRAGOMAN_TOKEN)")
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command; the host starts the agents")
    try:
        return run_loop(attach(api.resolve_host(options.host, options.token_file), options))
    except ConfigFault as fault:
        _report(str(fault))
        return exit_codes.USAGE
    except (ConnectionFailed, ProtocolError) as error:
        _report(str(error))
        return exit_codes.DIED


async def attach(host: api.HostTarget, options: argparse.Namespace) -> int:
    """Dial, then pass frames."""
    from dragoman.roles.client.reconnect.transport import dial_reconnecting
    from dragoman.roles.proxy.attach import attach
    from dragoman.roles.proxy.attach_session import AttachSession
    from dragoman.transport.remote.client.dial import dial_remote
    from dragoman.transport.stdio import stdio

    landing = None
    about = await _fetch_host_info(host) if host.token or options.agent else {}
    api.check_agent(host, about, options.agent)
    linked = about.get("session")  # the one that a share link opens
    wanted = linked if options.session is None and isinstance(linked, str) else options.session
    if wanted is not None:
        found = await _find_session(host, wanted, options.host)
        listed = SessionInfo(
            session_id=found.session_id,
            cwd=found.cwd or "/",
            title=found.name or found.title or UNSET,
            updated_at=found.updated_at,
        )
        landing = AttachSession(found.session_id, to_json(listed), found.created_at or found.updated_at)

    async def dial() -> Transport:
        url = host.agent_url(options.agent)
        try:
            return await dial_remote(url, host.remote_settings, report=_report)
        except Unreachable as error:
            if error.status not in _NO_WEBSOCKET_STATUSES:
                raise
        return await dial_remote(url, msgspec.structs.replace(host.remote_settings, upgrade=False), report=_report)

    remote = await dial_reconnecting(dial, backoff=host.remote_settings.backoff, report=_report)
    editor = stdio(peer="the editor")
    reason = await attach(editor, remote, landing)
    if isinstance(reason, TransportClosed) and "the editor" in str(reason):
        return exit_codes.OK
    _report(str(reason))
    return exit_codes.DIED


async def _fetch_host_info(host: api.HostTarget) -> dict[str, Any]:
    """What the host says of itself and of us; nothing, where it is another server that knows no such thing."""
    try:
        told = await api.request_json(host, "GET", "/api/host")
    except (ProtocolError, ConnectionFailed):
        return {}  # if nobody is there, or nobody lets us in, that is said when it is dialled
    return told if isinstance(told, dict) else {}


async def _find_session(host: api.HostTarget, name: str, host_argument: str | None) -> Summary:
    """The session to land in; a fault when it is not there, or not for this user to see, which is the same to them."""
    try:
        return await HostStore(host).find(name)
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
        why = str(error) if not error.data else f"there is no session {name!r} at {host.display_name} that you may see"
        # A link is a secret, so it is not repeated.
        shown = host_argument if host_argument and "://" not in host_argument else host.display_name
        listing = f"dragoman sessions --host {shown}"
        raise ConfigFault(
            [f"{why}; `{listing}` lists those there are, and without --session a new one is opened"]
        ) from None


# Answers of servers, and of proxies before them, that speak no WebSocket: then there are two streams.
_NO_WEBSOCKET_STATUSES = frozenset({200, 400, 405, 406, 415, 426, 501})


def _report(text: str) -> None:
    print(f"dragoman attach: {sanitize(with_cli_advice(text))}", file=sys.stderr, flush=True)
