"""Requirements of clients, each with the probe that tries it."""
