"""`python -m interop.run`: install the counterparts, drive them all, print the matrix and write docs/matrix.md.

Exits 0 only if every advertised cell of enough agents, and of acpx, passes. `--only NAME` drives some (and writes no
page), `--keep` keeps the logs of cells that passed, too. `--at-once 3` drives three of them side by side.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from interop import acpx, loopback
from interop.cells import CELLS, Cell, Failed
from interop.counterparts import ACPX, ALL, Counterpart, Place
from interop.drive import Outcome, drive
from interop.install import CACHE, NotInstalled, install, node, place
from interop.model.server import Model
from interop.page import CHAINS, Row, Verdict, keep_section, page, table, verdict_of_all

LOGS = CACHE / "logs"
PAGE = Path(__file__).parent.parent / "docs" / "matrix.md"


def tell(text: str) -> None:
    """Print a line of progress at once."""
    print(text, flush=True)


def main() -> int:
    """Install and run everything, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m interop.run", description=__doc__)
    names = [counterpart.name for counterpart in ALL]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--cell", action="append", metavar="CELL", help="only these cells (and prompt)")
    parser.add_argument("--keep", action="store_true", help="keep all logs, not only those of failures")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="drive so many side by side (1)")
    options = parser.parse_args()
    chosen = [counterpart for counterpart in ALL if not options.only or counterpart.name in options.only]

    try:
        bin = node(tell)
    except NotInstalled as error:
        tell(f"node: {error}; put node 22.19 or newer, with npm, on PATH")
        return 1
    missing = install(chosen, bin, tell)
    alone = loopback.enter()
    tell("network: only loopback" if alone else "network: no namespace to be had; proxies point to a closed port")
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    base = environment(bin, alone)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="interop-") as temporary,
            Model(LOGS) as model,
            ThreadPoolExecutor(options.at_once) as crew,
        ):

            def row(counterpart: Counterpart) -> Row:
                if counterpart.name in missing:
                    return Row(counterpart.name, counterpart.version, {}, missing[counterpart.name])
                home = Path(temporary) / counterpart.name
                where = Place(place(counterpart), model.url(counterpart.name))
                env = make_home(counterpart, where, home, base)
                if counterpart is ACPX:
                    return acpx.judge(counterpart, where, home, env, tell, options.keep)
                return judge_agent(counterpart, where, home, env, options.cell, options.keep)

            rows = list((map if options.at_once == 1 else crew.map)(row, chosen))
    except KeyboardInterrupt:
        tell("ended by Ctrl-C; the page is as it was")
        return 130
    tell("")
    tell(table([row for row in rows if row.name != ACPX.name], [cell.title for cell in CELLS]))
    tell("")
    tell(table([row for row in rows if row.name == ACPX.name], acpx.TITLES))
    if options.only or options.cell:
        return 0 if all(row.passes for row in rows) else 1
    good, words = verdict_of_all([row for row in rows if row.name != ACPX.name], rows[-1])
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    old = PAGE.read_text() if PAGE.exists() else ""
    PAGE.write_text(keep_section(page(rows[:-1], rows[-1], today, alone=alone), old, CHAINS))
    tell(f"\n{words}\nwritten: {PAGE}; logs of failures: {LOGS}")
    return 0 if good else 1


def environment(bin: Path, alone: bool) -> dict[str, str]:
    """The environment of every agent: nothing of ours except the path to node."""
    path = os.pathsep.join([str(bin), "/usr/local/bin", "/usr/bin", "/bin"])
    env = {"PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "USER": "interop", "SHELL": "/bin/sh"}
    return env if alone else {**env, **loopback.closed_proxies()}


def make_home(counterpart: Counterpart, where: Place, home: Path, base: dict[str, str]) -> dict[str, str]:
    """Create an agent's home; return its variables."""
    places = {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local" / "share",
        "XDG_STATE_HOME": home / ".local" / "state",
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_RUNTIME_DIR": home / ".run",
        "TMPDIR": home / ".tmp",
    }
    for folder in places.values():
        folder.mkdir(parents=True, exist_ok=True)
    places["XDG_RUNTIME_DIR"].chmod(0o700)
    for name, text in counterpart.files(where).items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return {**base, **{name: str(folder) for name, folder in places.items()}, **counterpart.env(where)}


def judge_agent(
    counterpart: Counterpart, where: Place, home: Path, env: dict[str, str], only: list[str] | None, keep: bool
) -> Row:
    """Run all cells that an agent advertises; the first one shows what it advertises."""
    row = Row(counterpart.name, counterpart.version, {})
    introduction: dict[str, Any] = {}
    for cell in CELLS:
        if only and cell.name not in only and cell.name != "prompt":
            continue
        if not cell.is_advertised(introduction):
            row.cells[cell.title] = Verdict("unadvertised")
            tell(f"{counterpart.name:18} {cell.title:18} not advertised")
            continue
        verdict, outcomes = run_cell(cell, counterpart, where, home, env, keep)
        row.cells[cell.title] = verdict
        tell(f"{counterpart.name:18} {cell.title:18} {verdict.progress_line}")
        if cell.name == "prompt" and outcomes:
            introduction = outcomes[-1].result("initialize") or {}
            info = introduction.get("agentInfo") or introduction.get("info") or {}
            row.introduced = f"{info.get('name', '?')} {info.get('version', '?')}"
    return row


def run_cell(
    cell: Cell, counterpart: Counterpart, where: Place, home: Path, env: dict[str, str], keep: bool
) -> tuple[Verdict, list[Outcome]]:
    """Run one cell in its own folder; keep its logs if it failed."""
    folder = home / "work" / cell.name
    folder.mkdir(parents=True)
    log = LOGS / counterpart.name / cell.name
    outcomes: list[Outcome] = []

    def driven(prompt: str, **how: Any) -> Outcome:
        logs = log / str(len(outcomes) + 1)
        if how.get("session") and outcomes:
            time.sleep(counterpart.rest())
        outcomes.append(drive(prompt, counterpart.command(where), env=env, cwd=folder, log=logs, **how))
        return outcomes[-1]

    begun = time.monotonic()
    try:
        verdict = Verdict("passed", cell.run(driven, folder))
    except Failed as error:
        verdict = Verdict("failed", f"{error}")
    except LookupError as error:  # one unexpected line must not end the whole matrix
        verdict = Verdict("failed", f"an entry of the run is not as docs/store.md says: {error!r}")
    verdict.seconds = time.monotonic() - begun
    if verdict.passed and not keep:
        shutil.rmtree(log, ignore_errors=True)
    return verdict, outcomes


if __name__ == "__main__":
    sys.exit(main())
