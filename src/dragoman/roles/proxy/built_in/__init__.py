"""Proxies that ship with Dragoman: one module each."""
