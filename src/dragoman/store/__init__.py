"""The durable log of sessions: one contract, memory first."""
