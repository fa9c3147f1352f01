"""Files and places: where things of the user's are, how they are written, and what policy reads from them."""
