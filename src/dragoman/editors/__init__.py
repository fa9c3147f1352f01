"""Editors and their files: the entry that makes an editor start an agent, and how it is written, read and undone."""
