"""Official v1: the vocabulary itself. Also reads banjo's additions, writes only official members."""
