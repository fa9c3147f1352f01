"""What an editor starts: the agent itself, `dragoman translate` before it, or `dragoman attach` to a host.

Editors that a desktop starts do not have the PATH of your shell, so programs are written with absolute paths.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

import msgspec

from dragoman.config.config_file import NamedAgent
from dragoman.errors import ConfigFault
from dragoman.transport.process.module_command import module_command

# The ways from an editor to an agent.
DIRECT, TRANSLATE, ATTACH = "direct", "translate", "attach"
WAYS = (DIRECT, TRANSLATE, ATTACH)

# Where a program is found also without the PATH of a shell.
_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin")

_ENV_LINE = b"#!/usr/bin/env "
_LINE_BYTES = 256  # no longer first line is read


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What an editor starts, and under which name it shows it."""

    name: str  # as on our command lines: letters, digits, - and _
    title: str  # as users read it
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    mode: str = ""  # the agent's own mode for new sessions
    way: str = DIRECT

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line."""
        return (self.command, *self.args)


def way_for(agent: NamedAgent) -> str:
    """Return the way that loses nothing of an agent's configuration."""
    needs_us = agent.env or agent.sandbox or agent.dialect != "auto"
    return TRANSLATE if needs_us else DIRECT


def way_reason(agent: NamedAgent) -> str:
    """Return why an agent needs `translate`; empty if it does not."""
    reasons = (
        (bool(agent.env), "its variables stay in your config.toml, which only you can read"),
        (agent.sandbox, "it runs in the sandbox"),
        (way_for(agent) == TRANSLATE and not agent.env and not agent.sandbox, f"it uses the dialect {agent.dialect}"),
    )
    return " and ".join(reason for holds, reason in reasons if holds)


def launch_agent(agent: NamedAgent, title: str, environ: Mapping[str, str] = os.environ) -> Launch:
    """Return the launch of the agent itself; raise ConfigFault if its program is not found."""
    program, script = _find_program(agent.argv[0], environ)
    return _checked(
        Launch(
            name=agent.name,
            title=title,
            command=program,
            args=(*script, *agent.args),
            env=agent.env,
            mode=agent.mode,
        )
    )


def launch_translate(agent: NamedAgent, title: str, *, is_configured: bool) -> Launch:
    """Return the launch of `dragoman translate` with an agent of config.toml, or with a command line."""
    rest = ("--agent", agent.name) if is_configured else ("--", *agent.argv)
    program, *args = own_command()
    return _checked(
        Launch(name=agent.name, title=title, command=program, args=(*args, "translate", *rest), way=TRANSLATE)
    )


def launch_attach(host: str, agent: str, name: str, title: str, session: str = "") -> Launch:
    """Return the launch of `dragoman attach`; "" for the default host and for the first agent of the host."""
    options = (*(("--agent", agent) if agent else ()), *(("--session", session) if session else ()))
    program, *args = own_command()
    words = ("attach", *((host,) if host else ()), *options)
    return _checked(Launch(name=name, title=title, command=program, args=(*args, *words), way=ATTACH))


def own_command() -> list[str]:
    """Return the command line of Dragoman itself, with an absolute path."""
    beside = os.path.join(os.path.dirname(sys.executable), "dragoman")
    found = beside if os.access(beside, os.X_OK) else shutil.which("dragoman")
    return [os.path.abspath(found)] if found else list(module_command())


def _find_program(command: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the absolute path of a program, and of the script that it runs if the system would not find it."""
    path = environ.get("PATH", os.defpath)
    found = shutil.which(os.path.expanduser(command), path=path)
    if found is None:
        raise ConfigFault(
            [f"{command} is not on PATH; install it, or add it with its path: dragoman agents add NAME -- CMD"]
        )
    program = os.path.abspath(found)
    interpreter = _interpreter(program)
    if not interpreter or shutil.which(interpreter, path=os.pathsep.join(_SYSTEM_PATH)):
        return program, ()
    # node of nvm, python of pyenv: a desktop's PATH does not have them (zed#50664, claude-agent-acp#633).
    real = shutil.which(interpreter, path=path)
    return (os.path.abspath(real), (program,)) if real else (program, ())


def _interpreter(program: str) -> str:
    """Return the program of a line `#!/usr/bin/env PROGRAM`; empty for any other file."""
    try:
        with open(program, "rb") as file:
            line = file.read(_LINE_BYTES).partition(b"\n")[0]
    except OSError:
        return ""
    words = line.removeprefix(_ENV_LINE).split() if line.startswith(_ENV_LINE) else []
    return os.fsdecode(words[0]) if len(words) == 1 else ""


def _checked(launch: Launch) -> Launch:
    """Return the launch if a file of text can hold it."""
    for word in (*launch.argv, launch.title, *launch.env, *launch.env.values()):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise ConfigFault([f"{word!r} is not valid UTF-8; an editor's file cannot hold it"]) from None
        if "\0" in word:
            raise ConfigFault([f"{word!r} has a NUL character; an editor's file cannot hold it"])
    return launch
