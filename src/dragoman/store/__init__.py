"""Durable session logs behind one contract, in memory or in an SQLite file; and the audit log."""
