"""Clients that mishandle their agent's process; simulated in memory, real as commands."""

from __future__ import annotations

from tests.conformance.faults.client.update import block, update
from tests.conformance.faults.edits import ignore_on
from tests.conformance.faults.fault import seed, trait

seed("client.process.01", trait("unread stderr"))
seed("client.process.02", trait("orphans"))
seed("client.process.03", trait("spares the deaf"))
seed("client.process.04", trait("orphans the wrapped"))
seed("client.process.05", trait("hangs on a death"))
seed("client.process.06", trait("hangs on a still birth"))
seed("client.process.07", trait("hangs on a closed output"))
seed("client.process.08", trait("hides deaths"))
seed("client.process.09", trait("deaf to Ctrl-C"))
seed("client.process.10", trait("bare environment"))
seed("client.process.11", ignore_on(lambda message: "last-words" in str(block(update(message)).get("text"))))
seed("client.process.12", trait("orphans when left"))
