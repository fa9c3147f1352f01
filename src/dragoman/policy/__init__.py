"""From a question to allow, ask or deny. Pure: takes values, gives values; files, clocks and people are elsewhere."""
