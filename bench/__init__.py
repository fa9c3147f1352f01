"""Measures Dragoman against the official Python and TypeScript SDKs: `python -m bench.run`."""
