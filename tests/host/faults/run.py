"""The fault run: clients in sessions of one host, while connections are cut and stalled, and agents and the host killed
with -9.

    python -m tests.host.faults.run --seconds 120 --cuts 400 --kills 10

Afterwards every client's view equals the log, nothing acknowledged is lost or repeated, and no process or descriptor is
left behind. Prints the counts; exits 1 when anything is wrong. `make fault-run` runs the long form, the tests a short
one. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.host.faults.client import FaultClient
from tests.host.faults.comparison import Findings, Log, compare, logs
from tests.host.faults.host import AGENTS, TIMEOUT, Host, becomes_true
from tests.host.faults.relay import Relay
from tests.host.faults.view import USER, View
from tests.transport.remote.certificate import certificate

# How long all clients may take to join, and at the end to have seen everything. Seconds.
ARRIVAL = 120.0
SETTLING = 240.0

# The longest stall, and the longest time between a kill of the host and its restart. Seconds.
STALL = 4.0
AWAY = 1.0


class Plan(NamedTuple):
    """What is done, and to whom."""

    seconds: float = 120.0
    cuts: int = 400
    stalls: int = 100
    agent_kills: int = 40
    kills: int = 10  # of the host
    clients: int = 50
    sessions: int = 10
    prompters: int = 2  # in each session
    ways: str = "ws,http"  # transports of the clients, in turn; wss and https: the host has TLS and HTTP/2

    @property
    def is_secure(self) -> bool:
        """Whether the connections are encrypted. All are or none: the host has one port."""
        return all(way in ("wss", "https") for way in self.ways.split(","))


async def fault_run(folder: Path, plan: Plan, seed: str) -> Findings:
    """Run the plan and compare."""
    findings = Findings(done=dict.fromkeys(("cut", "stalled", "agent killed", "host killed"), 0))
    before = descriptors()
    trusted = certificate(folder) if plan.is_secure else None
    host = Host(folder, options=("--tls", *map(str, trusted)) if trusted else ())
    try:
        await host.start()
        async with Relay() as relay:
            relay.target = host.port
            guests = create_clients(plan, relay.port, str(folder), trusted and str(trusted[0]))
            tasks = [asyncio.create_task(guest.run()) for guest in guests]
            try:
                await wait_joined(guests, folder)
                await make_faults(plan, random.Random(seed), host, relay, findings)
                await settle(guests, host, findings, folder)
                async with asyncio.timeout(TIMEOUT):
                    await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                received = [
                    f"{view.name}: {report}\n" for each in guests for view in each.views for report in view.reports
                ]
                (folder / "reports").write_text("".join(received))
            findings.lines = relay.carried
        findings.faults += await host.end()
    finally:
        await host.abandon()
    if not await becomes_true(lambda: len(descriptors()) <= len(before)):
        left = sorted(place for name, place in descriptors().items() if before.get(name) != place)
        findings.fault("", f"the clients left descriptors open: {left}")
    stored = await logs(host.store, findings)
    for guest in guests:
        for prompt in guest.hanging:
            ends = [(log.prompts.get(prompt), log.ends.get(prompt)) for log in stored.values() if prompt in log.prompts]
            findings.fault("", f"{prompt} was never answered; the log has {ends}")
    return compare([view for guest in guests for view in guest.views], stored, findings)


def descriptors() -> dict[str, str]:
    """Return the open descriptors of this process, by number."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one of the listing itself
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def create_clients(plan: Plan, port: int, folder: str, authority: str | None = None) -> list[FaultClient]:
    """Create the clients. The first of each session opens it."""
    loop = asyncio.get_running_loop()
    sessions: list[asyncio.Future[str]] = [loop.create_future() for _ in range(plan.sessions)]
    guests = []
    ways = plan.ways.split(",")
    for number in range(plan.clients):
        place, turn = number % plan.sessions, number // plan.sessions
        path = "/acp" if place % 2 == 0 else f"/acp/{AGENTS[1]}"
        url = f"{ways[(place + turn) % len(ways)]}://127.0.0.1:{port}{path}"
        guest = FaultClient(f"c{number}", url, folder, sessions[place], opens=turn == 0, prompts=turn < plan.prompters)
        guest.authority = authority
        guests.append(guest)
    return guests


async def wait_joined(guests: list[FaultClient], folder: Path) -> None:
    """Wait until all clients have joined their session."""
    try:
        async with asyncio.timeout(ARRIVAL):
            await asyncio.gather(*(guest.here.wait() for guest in guests))
    except TimeoutError:
        write_states(folder)
        late = [guest.name for guest in guests if not guest.here.is_set()]
        raise AssertionError(f"after {ARRIVAL:.0f} s these had not come: {late}") from None


def write_states(folder: Path) -> None:
    """Write down the state of all clients, for debugging."""
    with (folder / "tasks").open("w") as file:
        for task in asyncio.all_tasks():
            task.print_stack(file=file)


async def make_faults(plan: Plan, dice: random.Random, host: Host, relay: Relay, findings: Findings) -> None:
    """Inject every fault of the plan, at random moments."""
    kinds = ["cut"] * plan.cuts + ["stalled"] * plan.stalls
    kinds += ["agent killed"] * plan.agent_kills + ["host killed"] * plan.kills
    dice.shuffle(kinds)
    pause = plan.seconds / max(len(kinds), 1)
    stalled: set[asyncio.Task[None]] = set()
    for kind in kinds:
        await asyncio.sleep(dice.expovariate(1.0) * pause)
        chance = dice.random()
        if kind == "host killed":
            await host.kill()
            await asyncio.sleep(chance * AWAY)
            await host.start()
            relay.target = host.port
        elif kind == "agent killed":
            await until(lambda: host.kill_agent(dice), "an agent to be killed")
        else:
            await until(lambda: relay.lines, "a line to be cut")
            line = relay.pick(dice)
            assert line is not None
            if kind == "cut":
                line.cut()
            else:
                task = asyncio.create_task(line.stall(chance * min(STALL, plan.seconds / 4)))
                stalled.add(task)
                task.add_done_callback(stalled.discard)
        findings.done[kind] += 1
    if stalled:
        await asyncio.wait(stalled)


async def until(is_so: Callable[[], object], what: str) -> None:
    """Poll until a condition is true."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while not is_so():
        assert asyncio.get_running_loop().time() < deadline, f"in {TIMEOUT:.0f} s there was not {what}"
        await asyncio.sleep(0.02)


async def settle(guests: list[FaultClient], host: Host, findings: Findings, folder: Path) -> None:
    """Wait until turns have ended and all clients have seen everything. The comparison reports those that have not."""
    for guest in guests:
        guest.ending.set()
    deadline = asyncio.get_running_loop().time() + SETTLING
    try:
        async with asyncio.timeout_at(deadline):
            await asyncio.gather(*(guest.quiet.wait() for guest in guests))
            known: dict[str, Log] = {}
            while True:
                before, known = known, await logs(host.store, Findings())
                is_still = {id: len(log.entries) for id, log in before.items()} == {
                    id: len(log.entries) for id, log in known.items()
                }
                if is_still and all(has_all(guest.views[-1], known) for guest in guests):
                    break
                await asyncio.sleep(0.3)
    except TimeoutError:
        late = [guest.name for guest in guests if not guest.quiet.is_set()]
        findings.fault("", f"after {SETTLING:.0f} s not everything was seen; still at work: {late}")
        write_states(folder)
    for guest in guests:
        guest.leaving.set()


def has_all(view: View, known: dict[str, Log]) -> bool:
    """Tell whether a client has seen the last entry of its log."""
    log = known.get(view.session)
    if log is None:
        return False
    visible = [seq for seq, (kind, text) in log.shown.items() if not (kind == USER and text in view.begun)]
    return not visible or view.last >= visible[-1]


def table(findings: Findings) -> str:
    """Return the counts, one per line."""
    lines: dict[str, object] = {
        "clients": findings.clients,
        "sessions": findings.sessions,
        "lines between them": findings.lines,
        **{f"  {what}": count for what, count in findings.done.items()},
        "dropped for not reading": findings.slow,
        "prompts": findings.prompts,
        "  answered": findings.answered,
        **{f"  {why}": count for why, count in sorted(findings.refused.items())},
        "questions": findings.questions,
        "entries": findings.entries,
        "acknowledged": findings.acknowledged,
        "lost": findings.lost,
        "doubled": findings.doubled,
        "out of order": findings.disordered,
        "other faults": max(len(findings.faults) - findings.lost - findings.doubled - findings.disordered, 0),
    }
    width = max(map(len, lines))
    return "\n".join(f"{name.ljust(width)}  {value!s:>8}" for name, value in lines.items())


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in Plan()._asdict().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, metavar="N")
    parser.add_argument("--seed", default=os.urandom(4).hex())
    parser.add_argument("--keep", metavar="FOLDER", help="work there, and leave it, with what each client was told")
    options = parser.parse_args()
    plan = Plan(**{name: getattr(options, name) for name in Plan._fields})
    began = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="faults-") as created:
        folder = Path(options.keep or created)
        folder.mkdir(exist_ok=True)
        findings = asyncio.run(fault_run(folder, plan, options.seed))
    print(table(findings))
    print("\n".join(findings.faults) or f"no faults, in {time.monotonic() - began:.0f} seconds")
    return 1 if findings.faults else 0


if __name__ == "__main__":
    sys.exit(main())
