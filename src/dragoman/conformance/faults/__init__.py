"""The seeded faults, by chapter: for each requirement one way to break it, and nothing else."""
