"""Proxies: between a client and an agent, with translation where they speak different dialects."""
