"""Recordings of a connection: the file format, the recorder, and the tap on a transport."""
