"""The editors that Dragoman knows: where each keeps its agents, in which form, and what it cannot do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.editors import entries
from dragoman.editors.launch import Launch

JSON, LUA, LISP, COMMAND = "json", "lua", "lisp", "command"


class Editor(msgspec.Struct, frozen=True, kw_only=True):
    """One editor, or one plug-in of an editor."""

    name: str
    title: str
    form: str  # JSON: one member of a settings file; LUA, LISP: one block of a file of ours; COMMAND: nothing to write
    entry: Callable[[Launch], Any]  # a value for JSON, else lines
    file: Callable[..., str] = lambda environ, platform="": ""  # from the environment and sys.platform
    keys: tuple[str, ...] = ()  # JSON: the path to the object that holds the agents
    around: tuple[str, str] = ("", "")  # what a copied entry needs before and after it
    once: tuple[str, ...] = ()  # lines that the user adds to the editor's own configuration, once
    mention: str = ""  # the word by which the editor's configuration is seen to use our file
    limits: tuple[str, ...] = ()  # what users should know, one sentence each
    dialect: str = ""  # what it sends, for the table of the docs

    def member_path(self, title: str) -> tuple[str, ...]:
        """Return the path of an agent's entry in a JSON file."""
        return (*self.keys, title)


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def config_home(environ: Mapping[str, str]) -> str:
    """Return the folder of configurations, by the XDG rule."""
    named = environ.get("XDG_CONFIG_HOME", "")
    return named if os.path.isabs(named) else os.path.join(_home(environ), ".config")


def _zed_file(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    # On macOS, too, Zed uses ~/.config, but not XDG_CONFIG_HOME.
    base = os.path.join(_home(environ), ".config") if platform == "darwin" else config_home(environ)
    return os.path.join(base, "zed", "settings.json")


def _jetbrains_file(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    return os.path.join(_home(environ), ".jetbrains", "acp.json")


def _vscode_file(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    if platform == "darwin":
        base = os.path.join(_home(environ), "Library", "Application Support")
    else:
        base = config_home(environ)
    return os.path.join(base, "Code", "User", "settings.json")


def _nvim_file(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    return os.path.join(config_home(environ), environ.get("NVIM_APPNAME") or "nvim", "lua", "dragoman_agents.lua")


def _emacs_file(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    # The rule of Emacs 27 and newer: ~/.emacs.d where it or ~/.emacs exists, else the XDG folder if that exists.
    old = os.path.join(_home(environ), ".emacs.d")
    new = os.path.join(config_home(environ), "emacs")
    is_old = os.path.exists(old) or os.path.exists(os.path.join(_home(environ), ".emacs"))
    return os.path.join(old if is_old or not os.path.isdir(new) else new, "dragoman-agents.el")


_VSCODE_LIMIT = "VS Code reads the change at once; connect again to a running agent."

EDITORS: dict[str, Editor] = {
    editor.name: editor
    for editor in (
        Editor(
            name="zed",
            title="Zed",
            form=JSON,
            entry=entries.zed_entry,
            file=_zed_file,
            keys=("agent_servers",),
            limits=(
                "Zed shows no icon for a custom agent; an icon needs an entry in the registry.",
                "Zed reads the change at once; if an older one does not, restart it (Cmd+Q, or Ctrl+Q).",
            ),
            dialect="official v1; older versions also `models` and `session/set_model`",
        ),
        Editor(
            name="jetbrains",
            title="JetBrains IDEs",
            form=JSON,
            entry=entries.jetbrains_entry,
            file=_jetbrains_file,
            keys=("agent_servers",),
            limits=(
                "The IDE reads the file when the AI Chat window opens.",
                'To give the agent the MCP servers of the IDE, add "use_idea_mcp": true to its entry.',
            ),
            dialect="official v1",
        ),
        Editor(
            name="vscode",
            title="VS Code, ACP Client",
            form=JSON,
            entry=entries.vscode_entry,
            file=_vscode_file,
            keys=("acp.agents",),
            limits=("The extension is formulahendry.acp-client.", _VSCODE_LIMIT),
            dialect="official v1",
        ),
        Editor(
            name="vscode-acp-plugin",
            title="VS Code, ACP Plugin",
            form=JSON,
            entry=entries.acp_plugin_entry,
            file=_vscode_file,
            keys=("acp.agentServers",),
            limits=("The extension is ACP Plugin of strato-space.", _VSCODE_LIMIT),
            dialect="official v1",
        ),
        Editor(
            name="codecompanion",
            title="Neovim, CodeCompanion",
            form=LUA,
            entry=entries.codecompanion_entry,
            file=_nvim_file,
            around=(
                "local M = { codecompanion = {} }",
                'require("codecompanion").setup({ adapters = { acp = M.codecompanion } })',
            ),
            once=(
                'require("codecompanion").setup({',
                '  adapters = { acp = require("dragoman_agents").codecompanion },',
                "})",
            ),
            mention="dragoman_agents",
            limits=("Neovim reads the file when it starts.",),
            dialect="official v1; never answers requests that it does not know",
        ),
        Editor(
            name="avante",
            title="Neovim, avante",
            form=LUA,
            entry=entries.avante_entry,
            file=_nvim_file,
            around=("local M = { avante = {} }", 'require("avante").setup({ acp_providers = M.avante })'),
            once=('require("avante").setup({', '  acp_providers = require("dragoman_agents").avante,', "})"),
            mention="dragoman_agents",
            limits=("Neovim reads the file when it starts; choose the agent with :AvanteSwitchProvider.",),
            dialect="official v1",
        ),
        Editor(
            name="agent-shell",
            title="Emacs, agent-shell",
            form=LISP,
            entry=entries.agent_shell_entry,
            file=_emacs_file,
            around=("(require 'agent-shell)", ""),
            once=(
                "(with-eval-after-load 'agent-shell",
                '  (load (expand-file-name "dragoman-agents" user-emacs-directory)))',
            ),
            mention="dragoman-agents",
            limits=("Emacs reads the file when it starts; start the agent with M-x agent-shell.",),
            dialect="official v1, without terminals; `session/cancel` has an extra member `reason`",
        ),
        Editor(
            name="marimo",
            title="marimo",
            form=COMMAND,
            entry=entries.marimo_entry,
            limits=(
                "marimo has no setting for agents: it connects to the port of an agent that it knows.",
                "Leave the command running, then choose that agent in the chat panel of marimo.",
            ),
            dialect="official v1, over WebSocket",
        ),
    )
}

# Names that people type, and the rows that they can mean.
ALIASES: dict[str, tuple[str, ...]] = {
    "neovim": ("codecompanion", "avante"),
    "nvim": ("codecompanion", "avante"),
    "emacs": ("agent-shell",),
    "idea": ("jetbrains",),
    "intellij": ("jetbrains",),
    "pycharm": ("jetbrains",),
    "code": ("vscode",),
    "vs-code": ("vscode",),
    "avante.nvim": ("avante",),
    "codecompanion.nvim": ("codecompanion",),
}
