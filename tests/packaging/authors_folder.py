"""The folder of an author: an agent with builds for four platforms, an icon, a license."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

ICON = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="currentColor" d="M2 2h12v12H2z"/></svg>'

MANIFEST: dict[str, Any] = {
    "id": "banjo",
    "name": "Banjo",
    "version": "0.1.0",
    "description": "An agent for tests",
    "repository": "https://github.com/user/banjo",
    "authors": ["A. Author"],
    "license": "Apache-2.0",
    "distribution": {
        "binary": {
            "darwin-aarch64": {"cmd": "./banjo", "args": ["acp"]},
            "darwin-x86_64": {"cmd": "./banjo", "args": ["acp"]},
            "linux-x86_64": {"cmd": "./banjo", "args": ["acp"], "env": {"BANJO": "1"}},
            "windows-x86_64": {"cmd": "./banjo.exe", "args": ["acp"]},
        }
    },
}

# What a program of each platform begins with.
PROGRAMS = {
    "darwin-aarch64": b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
    "darwin-x86_64": b"\xcf\xfa\xed\xfe\x07\x00\x00\x01",
    "linux-x86_64": b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\x00",
    "windows-x86_64": b"MZ",
}


def make_folder(folder: Path, icon: str = ICON, **changes: Any) -> Path:
    """Make the folder; `changes` are members of agent.json, None removes one."""
    manifest = {**MANIFEST, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({key: value for key, value in manifest.items() if value is not None})
    (folder / "agent.json").write_text(text)
    (folder / "icon.svg").write_text(icon)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    for platform, head in PROGRAMS.items():
        program = folder / "bin" / platform / ("banjo.exe" if platform.startswith("windows") else "banjo")
        program.parent.mkdir(parents=True)
        program.write_bytes(head + b"\0" * 40)
        program.chmod(0o755)
    return folder
