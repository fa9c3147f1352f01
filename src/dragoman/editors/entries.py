"""The entry of an agent in the form of each editor: a value for JSON files, lines for Lua and Emacs Lisp."""

from __future__ import annotations

from typing import Any

from dragoman.editors.launch import Launch
from dragoman.editors.quoting import lisp_list, lisp_string, lua_list, lua_string, shell_line

# How long CodeCompanion waits for an answer. Agents that npx starts need longer than its 20 seconds. Milliseconds.
_PATIENCE = 120_000

# The ports on which marimo looks for the agents that it knows.
MARIMO_PORTS = {"claude": 3017, "gemini": 3019}


def zed_entry(launch: Launch) -> dict[str, Any]:
    """Return the entry of `agent_servers` in Zed's settings."""
    entry: dict[str, Any] = {"type": "custom", "command": launch.command, "args": list(launch.args)}
    if launch.env:
        entry["env"] = dict(launch.env)
    if launch.mode:
        entry["default_mode"] = launch.mode
    return entry


def jetbrains_entry(launch: Launch) -> dict[str, Any]:
    """Return the entry of `agent_servers` in acp.json."""
    return {"command": launch.command, "args": list(launch.args), "env": dict(launch.env)}


def vscode_entry(launch: Launch) -> dict[str, Any]:
    """Return the entry of `acp.agents` of the extension ACP Client."""
    return {"command": launch.command, "args": list(launch.args), "env": dict(launch.env)}


def acp_plugin_entry(launch: Launch) -> dict[str, Any]:
    """Return the entry of `acp.agentServers` of the extension ACP Plugin."""
    return {"type": "custom", "name": launch.title, **vscode_entry(launch)}


def codecompanion_entry(launch: Launch) -> list[str]:
    """Return the lines that add an adapter of CodeCompanion to the table M."""
    # CodeCompanion reads a text here as the name of a variable; a function gives the text itself.
    env = [f"      [{lua_string(key)}] = function() return {lua_string(text)} end," for key, text in launch.env.items()]
    return [
        f"M.codecompanion[{lua_string(launch.name)}] = function()",
        "  return {",
        f"    name = {lua_string(launch.name)},",
        f"    formatted_name = {lua_string(launch.title)},",
        '    type = "acp",',
        '    roles = { llm = "assistant", user = "user" },',
        "    opts = { vision = true },",
        f"    commands = {{ default = {lua_list(launch.argv)} }},",
        f"    defaults = {{ mcpServers = {{}}, timeout = {_PATIENCE} }},",
        *(["    env = {", *env, "    },"] if env else ["    env = {},"]),
        "    parameters = {",
        "      protocolVersion = 1,",
        "      clientCapabilities = { fs = { readTextFile = true, writeTextFile = true } },",
        '      clientInfo = { name = "CodeCompanion.nvim", version = "1.0.0" },',
        "    },",
        "    handlers = {",
        "      setup = function() return true end,",
        "      form_messages = function(self, messages, capabilities)",
        '        return require("codecompanion.adapters.acp.helpers").form_messages(self, messages, capabilities)',
        "      end,",
        "      on_exit = function() end,",
        "    },",
        "  }",
        "end",
    ]


def avante_entry(launch: Launch) -> list[str]:
    """Return the lines that add a provider of avante to the table M."""
    env = ", ".join(f"[{lua_string(name)}] = {lua_string(value)}" for name, value in launch.env.items())
    return [
        f"M.avante[{lua_string(launch.name)}] = {{",
        f"  command = {lua_string(launch.command)},",
        f"  args = {lua_list(launch.args)},",
        f"  env = {{ {env} }}," if env else "  env = {},",
        "}",
    ]


def agent_shell_entry(launch: Launch) -> list[str]:
    """Return the lines that add an agent to agent-shell."""
    env = "".join(f" {lisp_string(name)} {lisp_string(value)}" for name, value in launch.env.items())
    prompt = f"{launch.title}> "
    return [
        "(add-to-list",
        " 'agent-shell-agent-configs",
        " (agent-shell-make-agent-config",
        f"  :identifier '{launch.name}",
        f"  :mode-line-name {lisp_string(launch.title)}",
        f"  :buffer-name {lisp_string(launch.title)}",
        f"  :shell-prompt {lisp_string(prompt)}",
        f"  :shell-prompt-regexp (regexp-quote {lisp_string(prompt)})",
        "  :client-maker",
        "  (lambda (buffer)",
        "    (acp-make-client",
        f"     :command {lisp_string(launch.command)}",
        f"     :command-params {lisp_list(launch.args)}",
        f"     :environment-variables (agent-shell-make-environment-variables{env} :inherit-env t)",
        "     :context-buffer buffer)))",
        " t)",
    ]


def marimo_entry(launch: Launch) -> list[str]:
    """Return the command that serves the agent on the port where marimo looks for it."""
    known = next((name for name in MARIMO_PORTS if name in launch.name), next(iter(MARIMO_PORTS)))
    variables = [f"{name}={value}" for name, value in launch.env.items()]
    line = shell_line(launch.argv)
    start = shell_line(["env", *variables]) + " " if variables else ""
    return [f"{start}npx stdio-to-ws {shell_line([line])} --port {MARIMO_PORTS[known]}"]
