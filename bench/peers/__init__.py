"""The agents and clients that do the measured work, one pair per SDK; each is a process of its own."""
