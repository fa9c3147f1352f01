"""Measures Dragoman against the official Python, TypeScript and Rust SDKs: `python -m bench.run`."""
