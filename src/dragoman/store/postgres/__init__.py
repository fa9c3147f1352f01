"""The store in PostgreSQL, for hosts on several machines: tables, one writer a node, pages, search, leases, signals."""

from dragoman.store.postgres.store import PostgresStore as PostgresStore
