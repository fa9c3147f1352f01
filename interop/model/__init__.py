"""A fake model: it answers agents over loopback, deterministically, as the prompt orders."""
