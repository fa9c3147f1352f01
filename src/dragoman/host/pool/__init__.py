"""One agent process for several rooms."""
