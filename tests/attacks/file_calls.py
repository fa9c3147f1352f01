"""File calls while another process swaps files and folders for links: what is used is what was approved."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import ProtocolError
from dragoman.workspace.files import Files

SECRET = "secret"

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class Outcome(NamedTuple):
    """How many calls there were, their results, how often the names were swapped, and what went wrong."""

    calls: int
    results: dict[str, int]
    swaps: int
    escapes: list[str]


@contextmanager
def swapping(pairs: list[tuple[Path, Path]], counter: Path) -> Iterator[None]:
    """Exchange the names of each pair in another process, as fast as possible; it counts in a file."""
    swapper = os.fork()
    if swapper == 0:
        rename = ctypes.CDLL(None).renameat2
        names = [(bytes(one), bytes(other)) for one, other in pairs]
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        count, dice = 0, random.Random(0)
        try:
            while True:
                for one, other in names:
                    rename(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE)
                    for _ in range(dice.randrange(200)):  # sometimes longer than a call
                        pass
                count += len(names)
        finally:
            counter.write_text(str(count))
            os._exit(0)
    try:
        yield
    finally:
        os.kill(swapper, signal.SIGTERM)
        os.waitpid(swapper, 0)


def attack(folder: Path, count: int) -> Outcome:
    """Resolve, decide and use a path so often, as a client does; whoever would use `private` is refused."""
    inside = folder / "inside"
    for place in (inside / "plain", inside / "private", folder / "outside"):
        place.mkdir(parents=True)
        (place / "file").write_text("plain" if place.name == "plain" else SECRET)
    os.symlink("private", inside / "link")
    os.symlink(folder / "outside", inside / "away")
    os.symlink("../private/file", inside / "plain" / "link")
    files, private = Files([str(inside)]), str(inside / "private")
    path = str(inside / "plain" / "file")
    results: Counter[str] = Counter()
    escapes: list[str] = []

    def use(name: str, call: Callable[[Files], object]) -> None:
        try:
            approved = files.resolve(path)
            if approved.startswith(private):
                results["refused by policy"] += 1
                return
            if SECRET in str(call(files.with_approved({path: approved}))):
                escapes.append(f"{name} of {approved} gave the secret")
            results["done"] += 1
        except ProtocolError as error:
            results[error.kind] += 1

    plain = inside / "plain"
    # Each even number of swaps restores the names, so that the path often leads where it should.
    pairs = [(plain, inside / "link")] * 6 + [(plain / "file", plain / "link")] * 6 + [(plain, inside / "away")] * 2
    with swapping(pairs, folder / "count"):
        for number in range(count):
            os.sched_yield()  # on one processor, or all calls would meet the same names
            if number % 2:
                use("a read", lambda files: files.read_text(path))
            else:
                use("a write", lambda files: files.write_text(path, "plain"))
    for kept in (inside / "private" / "file", folder / "outside" / "file"):
        if kept.read_text() != SECRET:
            escapes.append(f"{kept} was written")
    return Outcome(count, dict(results), int((folder / "count").read_text()), escapes)
