"""Seeing what happens between a client and an agent: recordings, and everything that reads them."""
