"""Print docs/editors.md: a block to copy for each editor, and which product uses which dialect.

The blocks are what `dragoman editors show` prints for an agent, for `translate` and for `attach`; they come from the
table of editors. Only the prose and the table of products are written here.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.editors.changes import render_entry
from dragoman.editors.launch import ATTACH, DIRECT, TRANSLATE, Launch
from dragoman.editors.table import COMMAND, EDITORS, JSON, LISP, LUA, Editor

HOME = "/home/you"
DRAGOMAN = f"{HOME}/.local/bin/dragoman"

LAUNCHES = {
    DIRECT: Launch(name="opencode", title="OpenCode", command="/usr/local/bin/opencode", args=("acp",)),
    TRANSLATE: Launch(
        name="mine", title="Mine", command=DRAGOMAN, args=("translate", "--agent", "mine"), way=TRANSLATE
    ),
    ATTACH: Launch(
        name="office", title="Office", command=DRAGOMAN, args=("attach", "office", "--agent", "claude"), way=ATTACH
    ),
}

MAC_VSCODE = "~/Library/Application Support/Code/User/settings.json"

LANGUAGES = {JSON: "json", LUA: "lua", LISP: "elisp", COMMAND: "sh"}

OPENING = """\
# Editors

<!-- Written by docs/generate/editors.py. Change that or src/dragoman/editors, then run `make docs`. -->

Every editor that can start an ACP agent can start one through Dragoman. `dragoman editors` knows the file and the form
of each:

    dragoman editors                               # the editors, their files, and the agents in them
    dragoman editors show zed opencode             # the entry, to copy
    dragoman editors write zed opencode            # shows the change, asks, writes it
    dragoman editors write jetbrains --host office --agent claude
    dragoman editors read zed                      # the agents that Zed has
    dragoman editors read zed 'Claude Code' --add claude
    dragoman editors undo zed                      # takes the last write back

An entry starts the agent in one of three ways:

| way | the editor starts | for |
|---|---|---|
| `--via direct` | the agent itself | an agent that needs nothing of Dragoman (default) |
| `--via translate` | `dragoman translate` | another dialect, the sandbox, variables kept in config.toml (default) |
| `--host HOST` | `dragoman attach` | sessions that outlive the editor, or another machine ([the host](host.md)) |

`write` changes only its own entry. Comments, trailing commas, the order, the mode of the file and links stay. It writes
a new file beside the old one and renames it, and refuses if another program changed the file in the meantime. `undo`
restores the bytes; if you changed the file since, it takes back only the entry. The last 20 writes can be undone.
`--dry-run` only shows the change, `--yes` does not ask, `--file` names a file in another place (VSCodium, Cursor, a
project's settings), and `--name` is the name that the editor shows.

Programs are written with absolute paths, because an editor that the desktop starts does not have the PATH of your
shell. A script whose interpreter only your shell finds (node of nvm) is started by that interpreter."""

AFTER = """\
## Which product uses which dialect

All of them can be used with each other through `dragoman translate`; [the dialects](dialects.md) lists what each
dialect can express, and [real peers](protocol/peers.md) what products do beyond it. *Recorded* means that its messages
were recorded; *sources* that its sources or its documentation say so; *document* that only the document of the dialect
is known.

| product | dialect | known from |
|---|---|---|"""

# Editors whose messages were recorded.
RECORDED = ("codecompanion", "agent-shell")

# Agents and other clients; docs/protocol/peers.md has the details.
PRODUCTS = (
    ("claude-agent-acp, opencode, copilot, kimi, cline, vibe, openhands, fast-agent", "official v1", "recorded"),
    ("gemini, qwen, codex-acp, droid, pi, hermes", "official v1, with `models` and `session/set_model`", "recorded"),
    ("pydantic-acp, gptme, deepagents, crow (the program)", "official v1, by the official Python SDK", "recorded"),
    ("acpx, toad, openclaw (clients)", "official v1", "recorded"),
    ("Banjo", "banjo: v1 with models, `unstable_resumeSession` and its own error numbers", "document"),
    ("agents of the crow document", "crow: permission requests as updates", "document"),
    ("agents of the 2025.1 document", "2025.1: snake_case, session ids chosen by the client", "document"),
    ("agents of the draft document", "the draft: other method names, pushed terminal output", "document"),
)


def page() -> Iterator[str]:
    """Return the parts of the page."""
    yield OPENING
    for editor in EDITORS.values():
        yield "\n".join(section(editor))
    rows = [(each.title, each.dialect, "recorded" if each.name in RECORDED else "sources") for each in EDITORS.values()]
    table = [f"| {' | '.join(row)} |" for row in (*rows, *PRODUCTS)]
    yield "\n".join([AFTER, *table])


def section(editor: Editor) -> Iterator[str]:
    """Return the lines about one editor."""
    yield f"## {editor.title}"
    yield ""
    path = editor.file({"HOME": HOME}, "linux").replace(HOME, "~")
    mac = f"; on macOS `{MAC_VSCODE}`" if "Code/User" in path else ""
    name = f"`dragoman editors show {editor.name}`"
    yield f"{name} prints a command." if editor.form == COMMAND else f"{name}; the file is `{path}`{mac}."
    yield ""
    for way in (DIRECT, ATTACH) if editor.form != JSON else (DIRECT, TRANSLATE, ATTACH):
        yield f"```{LANGUAGES[editor.form]}"
        yield render_entry(editor, LAUNCHES[way]).rstrip()
        yield "```"
        yield ""
    if editor.once:
        yield f"`write` puts the entry into `{path}`, which your own configuration loads with:"
        yield ""
        yield f"```{LANGUAGES[editor.form]}"
        yield from editor.once
        yield "```"
        yield ""
    yield from (f"- {limit}" for limit in editor.limits)


if __name__ == "__main__":
    print("\n\n".join(page()))
