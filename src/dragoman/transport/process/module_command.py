"""The command line that starts a module of Dragoman in a process of its own."""

from __future__ import annotations

import sys


def module_command(module: str = "dragoman") -> tuple[str, ...]:
    """Return the command line of a module. It may be started in a project that nobody trusts: -P keeps Python from
    importing what is there.
    """
    return (sys.executable, "-P", "-m", module)
