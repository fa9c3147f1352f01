"""The parts of `dragoman serve`."""
