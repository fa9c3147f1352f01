"""What a sandbox never makes writable: what decides about the sandbox, or runs outside of it.

Takes a folder that is to be writable, looks at the disk and at this process, raises SandboxUnavailable with what to do.
Knows no mechanism: Landlock cannot take a part out of a folder, and a mount over it does not help either, for the
folder above it could be moved away, and another be made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from dragoman.errors import SandboxUnavailable
from dragoman.transport.sandbox.spec import contains_path
from dragoman.transport.sandbox.system_paths import way_through

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_INSTALL = "install it outside of that folder (pipx install dragoman, or uv tool install dragoman) and start that one"
_IMPORT = "take that folder out of PYTHONPATH, start Python with -P, or work in another folder"


def check_links(path: str, write: Sequence[str]) -> None:
    """Refuse to grant a path by way of a link which an agent could change."""
    real = os.path.realpath(path)
    for folder in write:
        if way_through(path, (folder,), inside=True) and not contains_path(folder, real):
            what = f"the sandbox cannot grant {path}, for an agent could change the link to it in {folder}"
            raise SandboxUnavailable(f"{what}; name {real} itself")


def check_closed(folder: str, closed: Iterable[str]) -> None:
    """Refuse a folder that has to do with the user's policy, grants and stores."""
    for path in map(os.path.expanduser, closed):
        ours = os.path.realpath(path)
        if way_through(path, (folder,)) or contains_path(ours, folder):
            what = f"the sandbox cannot make {folder} writable, for {ours} is Dragoman's own"
            raise SandboxUnavailable(f"{what}; work in a folder that has nothing to do with it")


def check_launcher(folder: str) -> None:
    """Refuse a folder that the launcher, or this process, is loaded from: both run outside of the sandbox."""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    # An empty one is the working directory. What is neither a path nor a folder is a sign for an importer.
    imports = [os.path.abspath(path) for path in sys.path if not path or os.path.isabs(path) or os.path.isdir(path)]
    installed = [path for path in imports if any(contains_path(prefix, path) for prefix in prefixes)]
    parts = (os.path.dirname(sys.executable), _PACKAGE, *installed)
    what = f"the sandbox cannot make {folder} writable"
    for path in (sys.executable, *prefixes, *parts):
        # A project may lie below a prefix, such as /usr, but not among the programs and modules there.
        if way_through(path, (folder,)) or (path in parts and contains_path(os.path.realpath(path), folder)):
            raise SandboxUnavailable(f"{what}, for Dragoman itself runs from {path}; {_INSTALL}")
    for path in imports:
        if way_through(path, (folder,)):
            raise SandboxUnavailable(f"{what}, for this program imports modules from {path}; {_IMPORT}")
