"""Whether a peer keeps the protocol: a table of requirements, a probe and a seeded fault for each, and reports."""
