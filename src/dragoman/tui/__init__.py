"""The full-screen terminal: `dragoman tui`. Needs prompt_toolkit (the extra `tui`)."""
