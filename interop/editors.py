"""Give what `dragoman editors` and `dragoman agents package` write to the programs that read it.

Each check needs a program or a checkout of a repository, which the environment names; without it the check is skipped
with a line that says what is missing. Used by `make editors-check`.

    NVIM, EMACS                                 the programs (those on PATH)
    CODECOMPANION, PLENARY, AVANTE              checkouts of the plug-ins of Neovim
    AGENT_SHELL, ACP_EL, SHELL_MAKER            checkouts of the packages of Emacs
    ZED                                         a checkout of zed-industries/zed, also a bare one; needs cargo
    REGISTRY                                    a checkout of agentclientprotocol/registry
    EXTENSIONS                                  a checkout of zed-industries/extensions, with its packages installed
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import jsonschema

from dragoman.editors.jsonc import parse
from dragoman.packaging.output import write_package
from dragoman.packaging.source import read_source
from dragoman.packaging.targets import BUILDERS
from interop.zed_settings import read_settings
from tests.packaging.authors_folder import make_folder

PATIENCE = 120  # seconds; an editor that loads its plug-ins on a busy machine
NAME = "demo"
AGENT = [sys.executable, "-m", "dragoman", "agent", "everything"]


class Missing(Exception):
    """A program or a checkout that this machine does not have."""


def place(variable: str) -> Path:
    """Return the folder that a variable names."""
    named = os.environ.get(variable, "")
    if not named or not Path(named).exists():
        raise Missing(f"set {variable} to its folder")
    return Path(named).resolve()


def program(variable: str, name: str) -> str:
    """Return a program."""
    found = shutil.which(os.environ.get(variable) or name)
    if found is None:
        raise Missing(f"{name} is not on PATH; set {variable}")
    return found


def run(*words: str | Path, cwd: Path, home: Path) -> str:
    """Run a program with a home of its own; raise with its output if it fails."""
    folders = {"HOME": home, "XDG_CONFIG_HOME": home / ".config", "XDG_STATE_HOME": home / "state"}
    env = {**os.environ, **{name: str(folder) for name, folder in folders.items()}}
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def write_entry(editor: str, home: Path) -> None:
    """Write the entry of the agent that ships with Dragoman."""
    run(sys.executable, "-m", "dragoman", "editors", "write", editor, "--yes", "--name", NAME, "--",
        *AGENT, cwd=home, home=home)  # fmt: skip


def check_codecompanion(home: Path) -> str:
    """CodeCompanion resolves the adapter, starts the agent and opens a session."""
    nvim, plugin, plenary = program("NVIM", "nvim"), place("CODECOMPANION"), place("PLENARY")
    write_entry("codecompanion", home)
    (home / "check.lua").write_text(
        f"""\
vim.opt.rtp:append({json.dumps(str(plugin))})
vim.opt.rtp:append({json.dumps(str(plenary))})
vim.opt.rtp:append({json.dumps(str(home / ".config" / "nvim"))})
require("codecompanion").setup({{ adapters = {{ acp = require("dragoman_agents").codecompanion }} }})
local adapter = require("codecompanion.adapters.acp").resolve({json.dumps(NAME)})
local connection = require("codecompanion.acp").new({{ adapter = adapter }})
local ended, good = false, nil
local thread = coroutine.create(function() good = connection:connect_and_authenticate() end)
local function step(...)  -- each request yields a function that takes what to do with the answer
  local is_running, wait = coroutine.resume(thread, ...)
  assert(is_running, wait)
  if coroutine.status(thread) == "dead" then ended = true else wait(step) end
end
step()
assert(vim.wait({PATIENCE * 500}, function() return ended end), "no answer")
assert(good, "did not connect")
print("protocol " .. connection._agent_info.protocolVersion)
connection:disconnect()
"""
    )
    return run(nvim, "--headless", "-u", "NONE", "-l", home / "check.lua", cwd=home, home=home)


def check_avante(home: Path) -> str:
    """avante takes the provider into its configuration."""
    nvim, plugin, plenary = program("NVIM", "nvim"), place("AVANTE"), place("PLENARY")
    write_entry("avante", home)
    (home / "check.lua").write_text(
        f"""\
vim.opt.rtp:append({json.dumps(str(plugin))})
vim.opt.rtp:append({json.dumps(str(plenary))})
vim.opt.rtp:append({json.dumps(str(home / ".config" / "nvim"))})
local config = require("avante.config")
config.setup({{ provider = {json.dumps(NAME)}, acp_providers = require("dragoman_agents").avante }})
local provider = config.acp_providers[{json.dumps(NAME)}]
assert(provider.command == {json.dumps(AGENT[0])}, "another command")
print(#provider.args .. " arguments")
"""
    )
    return run(nvim, "--headless", "-u", "NONE", "-l", home / "check.lua", cwd=home, home=home)


def check_agent_shell(home: Path) -> str:
    """agent-shell makes a client from the entry, and the client gets an answer to initialize."""
    emacs = program("EMACS", "emacs")
    folders = [place(name) for name in ("AGENT_SHELL", "ACP_EL", "SHELL_MAKER")]
    write_entry("agent-shell", home)
    paths = "".join(f"(add-to-list 'load-path {json.dumps(str(folder))})" for folder in folders)
    (home / "check.el").write_text(
        f"""\
{paths}
(require 'agent-shell)
(load (expand-file-name "dragoman-agents" user-emacs-directory))
(with-temp-buffer
  (setq-local agent-shell--state nil)
  (let* ((config (car (last agent-shell-agent-configs)))
         (client (funcall (map-elt config :client-maker) (current-buffer)))
         (answer (acp-send-request :client client :sync t
                                   :request (acp-make-initialize-request :protocol-version 1))))
    (princ (format "protocol %s" (map-elt answer 'protocolVersion)))
    (acp-shutdown :client client)))
"""
    )
    (home / ".emacs.d").mkdir(exist_ok=True)
    folder = f'(setq user-emacs-directory "{home}/.emacs.d/")'
    shown = run(emacs, "--batch", "-Q", "--eval", folder, "-l", home / "check.el", cwd=home, home=home)
    answer = re.search(r"protocol \d+", shown)
    assert answer is not None, shown
    return answer[0]


def check_zed(home: Path) -> str:
    """Zed's own types and parser read the entry, in a file with comments, and its schema allows it."""
    checkout, _ = place("ZED"), program("CARGO", "cargo")
    settings = home / ".config" / "zed" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('// mine\n{\n  "theme": "One Dark", // kept\n}\n')
    write_entry("zed", home)
    reading = read_settings(checkout, settings, home / "zed_settings")
    server = reading.servers[NAME]
    assert [server["command"], *server["args"]] == AGENT, server
    node = parse(settings.read_text())
    assert node is not None
    jsonschema.validate(node.value["agent_servers"], reading.schema)
    return f"{NAME}: {server['type']}, {len(server['args'])} arguments"


def package(kind: str, home: Path) -> Path:
    """Make a package of an agent for tests."""
    source = read_source(str(make_folder(home / "banjo")))
    made = BUILDERS[kind](source)
    write_package(made, str(home / "package"))
    return home / "package" / "publish.sh"


def clone(checkout: Path, home: Path) -> Path:
    """Return a copy in which the script may commit."""
    run("git", "clone", "-q", checkout, home / "clone", cwd=home, home=home)
    for key, value in (("user.name", "A. Author"), ("user.email", "author@example.org")):
        run("git", "config", "--global", key, value, cwd=home, home=home)
    return home / "clone"


def check_registry(home: Path) -> str:
    """The registry's own build accepts the entry, and publish.sh runs up to the network."""
    checkout = place("REGISTRY")
    shown = run("sh", package("registry", home), clone(checkout, home), cwd=home, home=home)
    assert "Added agent: banjo v0.1.0" in shown, shown
    return "Added agent: banjo v0.1.0"


EXTENSION_CHECK = """\
import * as rules from "./src/lib/validation.js";
import { readTomlFile, retrieveLicenseCandidates } from "./src/lib/fs.js";
import { readGitmodules } from "./src/lib/git.js";
const table = await readTomlFile("extensions.toml");
const modules = await readGitmodules(".gitmodules");
rules.validateExtensionsToml(table);
rules.validateGitmodules(modules);
rules.validateGitmodulesLocations(table, modules);
const manifest = await readTomlFile(process.argv[2] + "/extension.toml");
rules.validateManifest(manifest);
rules.validateLicense(await retrieveLicenseCandidates(process.argv[2]));
if (table[manifest.id].version !== manifest.version) throw new Error("versions differ");
console.log("valid: " + manifest.id);
"""


def check_extension(home: Path) -> str:
    """The validation of Zed's extension repository accepts the extension and its tables."""
    checkout, node = place("EXTENSIONS"), program("NODE", "node")
    if not (checkout / "node_modules").is_dir():
        raise Missing("run `npm install` in EXTENSIONS first")
    copy = clone(checkout, home)
    run("sh", package("zed-extension", home), home / "own", copy, cwd=home, home=home)
    (copy / "node_modules").symlink_to(checkout / "node_modules")
    (copy / "check.mjs").write_text(EXTENSION_CHECK)
    return run(node, "check.mjs", home / "own", cwd=copy, home=home)


CHECKS: dict[str, Callable[[Path], str]] = {
    "zed": check_zed,
    "codecompanion": check_codecompanion,
    "avante": check_avante,
    "agent-shell": check_agent_shell,
    "registry": check_registry,
    "zed-extension": check_extension,
}


def main() -> int:
    """Run every check; return 1 if one failed."""
    failed = 0
    for name, check in CHECKS.items():
        with tempfile.TemporaryDirectory(prefix="dragoman-editors-") as folder:
            try:
                print(f"ok       {name}: {check(Path(folder)).strip()}")
            except Missing as missing:
                print(f"skipped  {name}: {missing}")
            except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"FAILED   {name}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
