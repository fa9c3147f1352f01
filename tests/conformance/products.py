"""`python -m tests.conformance.products`: `dragoman check agent` on our own products; all MUST have to pass.

The agent that ships, the shortest agent of the guides, a translator in front of each dialect, a host behind `attach`,
a chain; some of them in v2, and our agent over HTTP and WebSocket.
This takes minutes, so `make conformance` runs it; test_products.py is the short form. Arguments are names of products.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.dialect.dialects import DIALECT_NAMES

ROOT = Path(__file__).parents[2]
DRAGOMAN = [sys.executable, "-P", "-m", "dragoman"]
EVERYTHING = [*DRAGOMAN, "agent", "everything"]
REPORTS = ROOT / "build" / "conformance"

PRODUCTS = {
    "everything": EVERYTHING,
    "echo": [sys.executable, str(ROOT / "examples" / "echo.py")],
    **{
        f"translate-{dialect}": [
            *DRAGOMAN,
            "translate",
            "--agent-dialect",
            dialect,
            "--",
            *EVERYTHING,
            "--dialect",
            dialect,
        ]
        for dialect in DIALECT_NAMES
    },
    "translate-auto": [*DRAGOMAN, "translate", "--", *EVERYTHING, "--dialect", "draft"],  # banjo is detected as v1
    "attach": [*DRAGOMAN, "attach"],
    "conduct": [*DRAGOMAN, "conduct", "filter --method _none", "--", *EVERYTHING],
    "everything-as-v2": EVERYTHING,
    "translate-v1-as-v2": [*DRAGOMAN, "translate", "--", *EVERYTHING, "--dialect", "v1"],
    **{f"served-{way}{version}": [] for way in ("http", "ws") for version in ("", "-as-v2")},
    "attach-as-v2": [*DRAGOMAN, "attach"],
}

HOST = [*DRAGOMAN, "serve", "--bind", "127.0.0.1:0", "--store", "memory:", "--json", "--", *EVERYTHING]
SERVED = [sys.executable, "-m", "tests.conformance.served_agent"]


@contextmanager
def running_server(command: list[str], environ: dict[str, str]) -> Iterator[str]:
    """Run a host or a served agent until the block ends; yield its URL."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, cwd=ROOT) as server:
        assert server.stdout is not None
        try:
            yield str(json.loads(server.stdout.readline())["url"])
        finally:
            server.terminate()


def check_product(name: str, jobs: int, environ: dict[str, str]) -> bool:
    """Check one product and show its report; return whether no MUST failed."""
    print(f"== {name}", flush=True)
    report = ["--json", str(REPORTS / f"{name}.json"), "--html", str(REPORTS / f"{name}.html")]
    dialect = ["--dialect", "v2"] if name.endswith("-as-v2") else []
    command = [*DRAGOMAN, "check", "agent", "--level", "must", "--jobs", str(jobs), *dialect, *report]

    def passes(*target: str) -> bool:
        return subprocess.run([*command, *target], env=environ, check=False).returncode == 0

    kind, _, rest = name.partition("-")
    if kind == "attach":
        with running_server(HOST, environ) as url:
            return passes("--", *PRODUCTS[name], url)
    if kind == "served":
        with running_server(SERVED, environ) as url:
            return passes(url.replace("http", rest.partition("-")[0], 1))
    return passes("--", *PRODUCTS[name])


def main(arguments: list[str]) -> int:
    """Check these products, or all; return 1 if a MUST of any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.products", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(PRODUCTS)}")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), metavar="N")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PRODUCTS):
        parser.error(f"there is no product {', '.join(sorted(unknown))}")
    REPORTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        folders = {f"XDG_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
        environ = {**os.environ, **folders}
        wrong = [name for name in options.names or PRODUCTS if not check_product(name, options.jobs, environ)]
    print(f"not conformant: {', '.join(wrong)}" if wrong else "every product meets every MUST", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
