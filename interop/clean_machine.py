"""`python -m interop.clean_machine`: from `pip install` to the first answer of a real agent, in two commands.

The machine is this one through bubblewrap: an empty home, an empty environment, nothing on PATH but Python and the
system, and no node, npm or uv anywhere. Only the model is a fake. Exits 0 if the agent answers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from dragoman.config.config_file import load_config
from interop.cells import SENTENCE
from interop.counterparts import AGENTS, Place
from interop.model.server import Model
from interop.run import LOGS, tell

ROOT = Path(__file__).parent.parent
WORD, COUNTERPART = "gemini", "gemini-cli"
# node is 60 MB and the agent 100 MB; a busy machine starts it in 20 s. Seconds.
PATIENCE = 900.0
HIDDEN = ("node", "npm", "npx", "corepack", "uv", "uvx")
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# How this machine reaches the network; a clean machine has its own.
NETWORK = (
    "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS", "PIP_CERT", "PIP_INDEX_URL", "PIP_FIND_LINKS", "npm_config_registry", "UV_DEFAULT_INDEX",
)  # fmt: skip


def build_wheel(folder: Path) -> Path:
    """Build the package that `pip install dragoman` would fetch."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(words, check=True, timeout=PATIENCE)
    return next(folder.glob("dragoman-*.whl"))


def bare(home: Path, variables: dict[str, str], words: list[str]) -> list[str]:
    """Return a command that runs in the clean machine."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SystemExit("clean machine: needs bubblewrap, to hide node and uv; install it")
    found = [Path(folder) / name for folder in FOLDERS for name in HIDDEN if (Path(folder) / name).exists()]
    masks = [word for path in dict.fromkeys(map(os.path.realpath, found)) for word in ("--ro-bind", "/dev/null", path)]
    passed = {name: os.environ[name] for name in NETWORK if name in os.environ}
    path = os.pathsep.join([str(home / "venv" / "bin"), *FOLDERS])
    env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", **passed, **variables}
    settings = [word for name, value in env.items() for word in ("--setenv", name, value)]
    own = ["--bind", str(home), str(home), "--chdir", str(home), "--die-with-parent", "--clearenv"]
    return [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *masks, *own, *settings, *words]


def run(home: Path, variables: dict[str, str], *words: str) -> str:
    """Run a command in the clean machine; return what it printed, or end with its error."""
    begun = time.monotonic()
    tell(f"$ {' '.join(words)}")
    command = bare(home, variables, list(words))
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    tell(ended.stderr.rstrip())
    tell(f"exit {ended.returncode}, {time.monotonic() - begun:.0f} s")
    if ended.returncode:
        raise SystemExit(f"clean machine: {words[0]} failed\n{ended.stdout}")
    return ended.stdout


def main() -> int:
    """Make the machine, type the two commands, look at the answer."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clean-machine-") as temporary, Model(LOGS) as model:
        home = Path(temporary).resolve()
        wheel = build_wheel(home)
        venv.create(home / "venv", with_pip=True)
        for name in ("node", "npm", "uv"):
            probe = subprocess.run(bare(home, {}, ["sh", "-c", f"command -v {name}"]), capture_output=True, text=True)
            if probe.returncode == 0:
                raise SystemExit(f"clean machine: it has {name} at {probe.stdout.strip()}")
        known = next(each for each in AGENTS if each.name == COUNTERPART)
        variables = known.env(Place(home, model.url(COUNTERPART)))
        run(home, {}, "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        answer = run(home, variables, "dragoman", "run", "-a", WORD, "--yes", f"[[say {SENTENCE}]]")
        agent = load_config(str(home / ".config" / "dragoman" / "config.toml")).agents[WORD]
        tell(f"{WORD} runs with {agent.command}")
        tell(answer.strip())
        good = SENTENCE in answer and agent.command.startswith(str(home))
        tell(f"clean machine: {'passed: the first answer after two commands' if good else 'FAILED: no answer'}")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
