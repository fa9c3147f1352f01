"""Paths that a sandbox never makes writable: what controls the sandbox, or runs outside it.

Raises SandboxUnavailable with what to do. Landlock cannot exclude a part of a folder, and a mount over it does not help
either: the folder above it could be moved away and replaced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from dragoman.errors import SandboxUnavailable
from dragoman.transport.sandbox.spec import contains_path
from dragoman.transport.sandbox.system_paths import traversed_folder

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_INSTALL = "install it outside of that folder (pipx install dragoman, or uv tool install dragoman) and start that one"
_IMPORT = "take that folder out of PYTHONPATH, start Python with -P, or work in another folder"


def check_links(path: str, write: Sequence[str]) -> None:
    """Refuse to grant a path through a link that an agent could change."""
    real = os.path.realpath(path)
    for folder in write:
        if traversed_folder(path, (folder,), inside=True) and not contains_path(folder, real):
            message = f"the sandbox cannot grant {path}, for an agent could change the link to it in {folder}"
            raise SandboxUnavailable(f"{message}; name {real} itself")


def check_protected(folder: str, protected: Iterable[str]) -> None:
    """Refuse a folder that contains, or is inside, the user's policy, grants and stores."""
    for path in map(os.path.expanduser, protected):
        protected_path = os.path.realpath(path)
        if traversed_folder(path, (folder,)) or contains_path(protected_path, folder):
            message = f"the sandbox cannot make {folder} writable, for {protected_path} is Dragoman's own"
            raise SandboxUnavailable(f"{message}; work in a folder that has nothing to do with it")


def check_launcher(folder: str) -> None:
    """Refuse a folder that the launcher or this process is loaded from: both run outside the sandbox."""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    # An empty one is the working directory. What is neither a path nor a folder belongs to an import hook.
    imports = [os.path.abspath(path) for path in sys.path if not path or os.path.isabs(path) or os.path.isdir(path)]
    installed = [path for path in imports if any(contains_path(prefix, path) for prefix in prefixes)]
    parts = (os.path.dirname(sys.executable), _PACKAGE, *installed)
    message = f"the sandbox cannot make {folder} writable"
    for path in (sys.executable, *prefixes, *parts):
        # A project may be below a prefix, such as /usr, but not among the programs and modules there.
        if traversed_folder(path, (folder,)) or (path in parts and contains_path(os.path.realpath(path), folder)):
            raise SandboxUnavailable(f"{message}, for Dragoman itself runs from {path}; {_INSTALL}")
    for path in imports:
        if traversed_folder(path, (folder,)):
            raise SandboxUnavailable(f"{message}, for this program imports modules from {path}; {_IMPORT}")
