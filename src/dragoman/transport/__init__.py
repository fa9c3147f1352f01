"""Moves frames to and from exactly one peer: memory, stream, stdio and process, all with one small contract.

Above is the engine, below are file descriptors. Nothing here parses a frame.
"""
