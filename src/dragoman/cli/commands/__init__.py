"""One module for each command of `dragoman` that has no folder of its own."""
