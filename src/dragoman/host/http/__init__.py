"""The HTTP side of a host: its ASGI app, JSON API, status page and metrics."""
