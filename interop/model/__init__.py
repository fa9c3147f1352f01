"""A model that is none: it answers agents over loopback, always the same, as the prompt tells it to."""
