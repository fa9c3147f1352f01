"""What a client lends an agent: files inside a boundary, and terminals.

Takes and gives plain Python values; the roles above turn them into messages. Below are only the errors and
the operating system. Knows nothing of sessions, policy or dialects: who may do what is decided before.
"""
