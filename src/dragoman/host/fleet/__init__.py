"""Several hosts on one store: leases, ownership of sessions, links between nodes, and sessions that run elsewhere."""
