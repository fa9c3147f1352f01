"""Decide whether an operation is allowed, asked about or denied. Pure: no files, no clock, no user interaction."""
