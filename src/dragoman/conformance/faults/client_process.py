"""Clients that treat their agent's process badly; in memory these are played, as commands they are real."""

from __future__ import annotations

from dragoman.conformance.client_seeding import deaf
from dragoman.conformance.client_twin import trait
from dragoman.conformance.faults.client_update import block, update
from dragoman.conformance.twin import seeded

seeded("client.process.01", trait("unread stderr"))
seeded("client.process.02", trait("orphans"))
seeded("client.process.03", trait("spares the deaf"))
seeded("client.process.04", trait("orphans the wrapped"))
seeded("client.process.05", trait("hangs on a death"))
seeded("client.process.06", trait("hangs on a still birth"))
seeded("client.process.07", trait("hangs on a closed output"))
seeded("client.process.08", trait("hides deaths"))
seeded("client.process.09", trait("deaf to Ctrl-C"))
seeded("client.process.10", trait("bare environment"))
seeded("client.process.11", deaf(lambda message: "last-words" in str(block(update(message)).get("text"))))
seeded("client.process.12", trait("orphans when left"))
