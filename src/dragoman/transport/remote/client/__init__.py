"""The client side of Streamable HTTP and WebSocket."""
