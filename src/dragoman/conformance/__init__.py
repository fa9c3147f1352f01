"""Check whether a peer follows the protocol: requirements, their probes, and reports."""
