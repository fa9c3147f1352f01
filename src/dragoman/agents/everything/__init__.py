"""The everything agent: every method, update and error of the protocol on request, deterministic and offline."""
