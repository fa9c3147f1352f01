"""MCP servers from a file, in the form that editors and agents share:

    {"mcpServers": {"files": {"command": "mcp-files", "args": ["."], "env": {"KEY": "${KEY}"}},
                    "web": {"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "..."}}}}

`${NAME}` in a value is an environment variable, so that secrets need not be in the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from dragoman.config.private_files import read_bytes
from dragoman.errors import ConfigFault
from dragoman.schema.base import UNSET
from dragoman.schema.mcp import McpForm, McpServer, NameValue

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MEMBERS = ("type", "command", "args", "env", "url", "headers")
_FORMS = (McpForm.STDIO, McpForm.HTTP, McpForm.SSE)


def load(path: str, environ: Mapping[str, str] = os.environ) -> list[McpServer]:
    """Return the servers of a file; raises ConfigFault with all errors."""
    try:
        data = read_bytes(path)
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None
    if data is None:
        raise ConfigFault([f"{path}: there is no such file"])
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigFault([f"{path}: not valid JSON: {error}"]) from None
    listed = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise ConfigFault([f"{path}: mcpServers: required, an object with an entry for each server"])
    faults: list[str] = []
    servers = [_parse_server(name, entry, environ, faults) for name, entry in listed.items()]
    if faults:
        raise ConfigFault([f"{path}: mcpServers.{fault}" for fault in faults])
    return [server for server in servers if server is not None]


def _parse_server(name: str, entry: Any, environ: Mapping[str, str], faults: list[str]) -> McpServer | None:
    before = len(faults)
    if not isinstance(entry, dict):
        faults.append(f"{name}: must be an object")
        return None
    for key in entry.keys() - set(_MEMBERS):
        faults.append(f"{name}.{key}: unknown member; known members are {', '.join(_MEMBERS)}")
    form = entry.get("type", McpForm.HTTP if "url" in entry else McpForm.STDIO)
    if form not in _FORMS:
        faults.append(f"{name}.type: must be one of {', '.join(_FORMS)}")
    required = "command" if form == McpForm.STDIO else "url"
    if not isinstance(entry.get(required), str) or not entry[required]:
        faults.append(f"{name}.{required}: must be a non-empty string")
    args = entry.get("args", [])
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        faults.append(f"{name}.args: must be a list of strings")
        args = []
    pairs: dict[str, list[NameValue]] = {}
    for key in ("env", "headers"):
        values = entry.get(key, {})
        if not isinstance(values, dict) or not all(isinstance(each, str) for each in values.values()):
            faults.append(f"{name}.{key}: must be an object of strings")
            values = {}
        pairs[key] = [
            NameValue(name=each, value=_expand_variables(value, f"{name}.{key}.{each}", environ, faults))
            for each, value in values.items()
        ]
    if len(faults) > before:
        return None
    if form == McpForm.STDIO:
        arguments = [_expand_variables(each, f"{name}.args", environ, faults) for each in args]
        return McpServer(name=name, command=entry["command"], args=arguments, env=pairs["env"])
    url = _expand_variables(entry["url"], f"{name}.url", environ, faults)
    return McpServer(name=name, type=form, url=url, headers=pairs["headers"], command=UNSET)


def _expand_variables(value: str, location: str, environ: Mapping[str, str], faults: list[str]) -> str:
    for name in _VARIABLE.findall(value):
        if name not in environ:
            faults.append(f"{location}: there is no environment variable {name}")
    return _VARIABLE.sub(lambda found: environ.get(found[1], ""), value)
