"""Recordings of the traffic between a client and an agent, and the tools that read them."""
