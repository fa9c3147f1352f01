"""Official v1: the vocabulary itself. Reads banjo's extras as well, writes only what is official."""
