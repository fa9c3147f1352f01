"""Read settings with Zed's own types: they are taken from a checkout, built with the parser that Zed uses, and asked.

Takes a checkout of zed-industries/zed (also a bare one) and a folder for the build; needs cargo. Used by editors.py.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = "crates/settings_content/src/agent.rs"
TYPES = ("AllAgentServersSettings", "CustomAgentServerSettings", "AgentConfigOptionValue")
BUILDING = 900  # seconds; it downloads and builds four crates

CARGO = """\
[package]
name = "zed_settings"
version = "0.1.0"
edition = "2024"
[dependencies]
serde = { version = "1", features = ["derive"] }
serde_json = "1"
serde_json_lenient = "0.2"
schemars = "1"
"""

MAIN = """\
use schemars::JsonSchema;
use serde::{{Deserialize, Serialize}};
use std::{{collections::HashMap, path::PathBuf}};

{types}

#[derive(Deserialize)]
struct Settings {{ agent_servers: AllAgentServersSettings }}

fn main() {{
    let path = std::env::args().nth(1).expect("a file");
    let text = std::fs::read_to_string(path).expect("readable");
    let settings: Settings = serde_json_lenient::from_str(&text).expect("Zed reads it");
    let schema = schemars::schema_for!(AllAgentServersSettings);
    println!("{{}}", serde_json::json!({{ "servers": settings.agent_servers, "schema": schema }}));
}}
"""


class Reading(NamedTuple):
    """What Zed's types made of a file, and the schema that Zed gives its editor for them."""

    servers: dict[str, Any]
    schema: dict[str, Any]


def zed_source(checkout: Path) -> str:
    """Return the file with the types, also from a bare repository."""
    words = ["git", "-C", str(checkout), "show", f"HEAD:{SOURCE}"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def take_type(source: str, name: str) -> str:
    """Return the definition of a type with what serde needs, without the macros of Zed."""
    found = re.search(rf"((?:^#\[[^\n]*\n)+)(^pub (?:struct|enum) {name}\b.*?(?:^\}}|\);)\n)", source, re.M | re.S)
    if found is None:
        raise RuntimeError(f"{SOURCE} of Zed has no {name} any more; look at what its settings are now")
    attributes = found[1].replace("#[with_fallible_options]\n", "").replace(" MergeFrom,", "")
    return attributes + found[2]


def read_settings(checkout: Path, settings: Path, folder: Path) -> Reading:
    """Build Zed's types and read a file with them; raise RuntimeError with what Zed would say."""
    source = zed_source(checkout)
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(CARGO)
    types = "\n".join(take_type(source, name) for name in TYPES)
    (folder / "src" / "main.rs").write_text(MAIN.format(types=types))
    words = ["cargo", "run", "--quiet", "--", str(settings)]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=BUILDING)
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    return Reading(**json.loads(ended.stdout))
