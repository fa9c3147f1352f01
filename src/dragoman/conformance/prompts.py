"""The prompts that make an agent do what a probe needs, by purpose.

Our everything agent has a slash command for each purpose; others are asked in plain English, or with the prompts in the
user's `--script FILE` (TOML: a table `[prompts]` of purpose = "text"). `{file}`, `{new}` and `{dir}` are filled in.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from dragoman.errors import ConfigFault

Script = dict[str, str]

EVERYTHING: Final[Script] = {
    "plain": "hello there, how are you today?",
    "think": "/think about it",
    "plan": "/plan",
    "read": "/read {file}",
    "write": "/write {new} hello from the checker",
    "edit": "/edit {file} line last",
    "run": "/run printf hello",
    "ask": "/ask",
    "slow": "/slow 60",
    "stream": "/stream 50",
    "flood": "/stream 2000 200",
    "error": "/error internal_error",
    "failure": "/error internal_error late",
    "refuse": "/error refusal",
    "image": "/image",
    "audio": "/audio",
    "resource": "/resource",
    "usage": "/usage",
    "title": "/title A checked session",
    "mode": "/mode code",
    "option": "/option model loud",
    "form": "/form",
    "link": "/link",
    "notice": "/notice all is well",
    "compact": "/compact",
    "tour": "/tour",
    "steer": "/steer 1",
    "background": "/background 60",
    "brief": "/background 0",
    "wake": "/wake",
    "rewrite": "/rewrite",
    "clear": "/clear",
    "terminal": "/terminal printf hello",
    "endless": "/terminal sleep 60",
    "wait": "/wait 60",
}

PLAIN: Final[Script] = {
    "plain": "Say hello in one short sentence.",
    "think": "Think for a moment about the number seven, then say one sentence about it.",
    "plan": "Make a plan of three steps for tidying a desk, with your plan or to-do tool, then stop.",
    "read": "Read the file {file} and tell me its first line.",
    "write": "Create the file {new} with the text: hello from the checker",
    "edit": "In the file {file}, replace the word line by last.",
    "run": "Run the shell command: printf hello",
    "ask": "Create the file {new} with the text: hello from the checker",
    "slow": "Run the shell command: sleep 60",
    "stream": "Count from one to fifty, each number on a line of its own.",
    "flood": "Count from one to five hundred, each number on a line of its own.",
    "tour": "Read the file {file}, then tell me in one sentence what is in it.",
}


def fill_prompt(prompt: str, **paths: str) -> str:
    """Return a prompt with these paths in their places; other braces are text, such as code or JSON."""
    return re.sub(r"\{(\w+)\}", lambda found: paths.get(found[1], found[0]), prompt)


def read_script(path: str) -> Script:
    """Return the user's prompts; purposes they leave out use the default prompts."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigFault([f"{path}: {error}"]) from None
    prompts = table.get("prompts")
    if not isinstance(prompts, dict):
        raise ConfigFault([f"{path}: a script has a table [prompts], with lines like: read = 'Read {{file}}'"])
    faults = [
        f"{path}: prompts.{name}: " + ("not a string" if name in EVERYTHING else f"one of {', '.join(EVERYTHING)}")
        for name, prompt in prompts.items()
        if name not in EVERYTHING or not isinstance(prompt, str)
    ]
    if faults:
        raise ConfigFault(faults)
    return {**PLAIN, **prompts}
