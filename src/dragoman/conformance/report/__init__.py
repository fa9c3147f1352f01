"""What a check found, for people and for machines: text, JSON, JUnit, one page, and the comparison with a baseline."""
