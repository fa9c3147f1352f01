"""The user's own folders in a sandbox: policy, grants, trust, audit and stores, which nothing in it ever writes.

Takes a Sandbox and an environment, gives one that knows them. Whoever starts agents and commands is above.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from dragoman.config.paths import places
from dragoman.transport.sandbox.spec import Sandbox


def closed(sandbox: Sandbox | None, environ: Mapping[str, str] = os.environ) -> Sandbox | None:
    """The same sandbox, closed to what is ours; None stays none."""
    if sandbox is None:
        return None
    ours = places(environ)
    # A policy that is a link leads out of its folder; what is not there is in a folder that is closed.
    files = [path for path in (ours.policy, ours.agents) if os.path.exists(path)]
    return sandbox.closing([ours.config, ours.state, ours.data, *files])
