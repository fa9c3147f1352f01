"""Transports move frames to and from one peer: memory, stream, stdio, process, remote. None parses a frame."""
