"""Peers under test: started, driven frame by frame, and their evidence kept."""
