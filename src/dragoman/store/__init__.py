"""The durable log of sessions: one contract, in memory or in an SQLite file; and the audit log."""
