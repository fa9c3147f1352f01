"""Logs in one SQLite file: any number of processes may use it; acknowledged entries are on the disk."""

from dragoman.store.sqlite.salvage import rebuild as rebuild
from dragoman.store.sqlite.store import SqliteStore as SqliteStore
