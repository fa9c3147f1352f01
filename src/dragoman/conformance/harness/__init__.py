"""The peers under test: how they are started, driven frame by frame, and recorded."""
