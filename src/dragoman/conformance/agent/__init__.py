"""Requirements of agents, each with the probe that tries it."""
