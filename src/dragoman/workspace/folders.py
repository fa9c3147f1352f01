"""A folder made where a path leads, with the folders before it when asked for.

Takes what the walk found and gives whether the folder is new. A folder that is there already is no fault, anything
else of that name is. Files are above; who may make folders is decided before.
"""

from __future__ import annotations

import errno
import os
import stat

from dragoman.workspace.paths import Roots, Spot, faults_of, find


def make_folder(roots: Roots, path: str, *, base: str | None = None, parents: bool = False) -> bool:
    """Make a folder; False when it was there."""
    asked = path.rstrip("/") or path  # a slash at the end would want the folder to be there
    with find(roots, asked, base=base, make_directories=parents) as spot, faults_of(spot.asked):
        roots.check_open(spot.path, spot.asked)
        try:
            os.mkdir(spot.name, dir_fd=spot.directory)
        except FileExistsError:
            return _was_there(spot)
    return True


def _was_there(spot: Spot) -> bool:
    seen = spot.stat()
    if seen is None or not stat.S_ISDIR(seen.st_mode):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    return False
