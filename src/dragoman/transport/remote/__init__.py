"""Frames over HTTP and WebSocket: the server's side and the client's, behind the contract of every transport.

Above is the engine, below are sockets. The packages that carry the bytes come with the extra `host` and are imported
only by the modules that need them.
"""
