"""`dragoman` as a version after this one, whose entries have a second format: for tests of updates.

python -m tests.host.fleet.run.next_version serve ...
"""

from __future__ import annotations

import sys
from typing import Any

import dragoman
from dragoman.store.formats import FORMATS, EntryFormat

VERSION = "99.0.0"

# What the second format adds to an entry, and its readers need.
ADDED = "since"


def lift(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of the first format in the second."""
    return {**entry, ADDED: "before"}


def lower(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of the second format in the first."""
    return {name: value for name, value in entry.items() if name != ADDED}


SECOND = EntryFormat(2, lift, lower)


if __name__ == "__main__":
    dragoman.__version__ = VERSION
    FORMATS.append(SECOND)
    from dragoman.cli.main import main

    sys.exit(main(sys.argv[1:]))
