"""Frames and JSON-RPC envelopes: bytes in, values out. No I/O, no dialects."""
