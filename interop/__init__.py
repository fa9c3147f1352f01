"""Interop with real agents and a real client, offline: `make interop` installs and drives them; see run.py."""
