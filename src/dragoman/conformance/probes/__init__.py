"""The probes, by chapter: each plays the other end of a fresh peer and says whether one requirement is kept."""
