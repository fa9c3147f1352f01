"""The user's files: where they are, how they are written, and what policy reads from them."""
