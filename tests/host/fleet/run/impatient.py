"""`dragoman` that waits less for PostgreSQL and for the owner of a session: for tests of an engine that is away.

python -m tests.host.fleet.run.impatient serve ...
"""

from __future__ import annotations

import sys

from dragoman.cli.main import main
from dragoman.host.fleet import ownership
from dragoman.store import session_log
from dragoman.store.postgres import database

if __name__ == "__main__":
    database.CONNECT_TIMEOUT, database.STATEMENT_TIMEOUT = 2.0, 4.0
    session_log.SETTLE_TIMEOUT, ownership.ATTACH_GRACE = 4.0, 2.0
    sys.exit(main(sys.argv[1:]))
