"""The transcript as rows: blocks in order, each rendered when it is visible."""
