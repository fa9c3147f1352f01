"""The workspace that a client shares with an agent: files inside root folders, and terminals.

Works with plain Python values; the roles turn them into messages. Permission is checked before.
"""
