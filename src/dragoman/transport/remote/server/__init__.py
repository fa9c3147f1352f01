"""The server side of Streamable HTTP and WebSocket, as an ASGI app and a listener."""
