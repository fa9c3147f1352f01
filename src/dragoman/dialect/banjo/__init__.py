"""The dialect "banjo" (seed 003): v1 and a table of differences; what it adds, v1 reads too."""
