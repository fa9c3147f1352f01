"""Registries as the commands use them: indexes, files, network, and installing with progress and a question."""
