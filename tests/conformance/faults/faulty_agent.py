"""Our everything agent with one fault, as a command to try `dragoman check agent` on:

python -m tests.conformance.faults.faulty_agent --fault agent.rpc.01 [--dialect v1]
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from dragoman.agents.everything.agent import everything
from dragoman.transport.stdio import stdio
from tests.conformance.faults.fault import FaultyPeer, faults


def main(arguments: list[str]) -> int:
    """Serve on standard input and output."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.faults.faulty_agent", description=__doc__)
    parser.add_argument("--fault", required=True, metavar="ID", help="the id of the requirement that must find it")
    parser.add_argument("--dialect", default="auto")
    options = parser.parse_args(arguments)
    if options.fault not in faults():
        parser.error(f"there is no fault for {options.fault}")

    async def serve() -> None:
        await everything(options.dialect).serve(FaultyPeer(stdio(), faults()[options.fault]))

    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
