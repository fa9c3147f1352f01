"""Stand-ins of a registry, npm and PyPI that serve real packages of a small agent."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from typing import Any

from dragoman.registry.platforms import this_machine
from tests.registry.stand_in import Site

RESULT = '{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"agentInfo":{"name":"small","version":"%s"}}'

SHELL = """\
#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id": *\\([0-9]*\\).*/\\1/')
  printf '{{"jsonrpc":"2.0","id":%s,"result":{result}}}\\n' "$id"
done
"""

NODE = """\
#!/usr/bin/env node
require("readline").createInterface({{ input: process.stdin }}).on("line", (line) => {{
  console.log(JSON.stringify({{ jsonrpc: "2.0", id: JSON.parse(line).id, result: {result} }}));
}});
"""

PYTHON = """\
import json, sys

def main():
    for line in sys.stdin:
        answer = {{"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": json.loads('''{result}''')}}
        print(json.dumps(answer), flush=True)
"""


def tarball(files: dict[str, bytes]) -> bytes:
    """Return a gzipped tar archive; every file is executable."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


def shell_agent(version: str = "1.0.0") -> bytes:
    """Return an agent as a shell script."""
    return SHELL.format(result=RESULT % version).encode()


def binary_entry(site: Site, id: str = "small", version: str = "1.0.0", **changes: Any) -> dict[str, Any]:
    """Serve an archive; return its entry."""
    data = tarball({"bin/agent": shell_agent(version), "data.txt": version.encode()})
    site.pages[f"/{id}-{version}.tar.gz"] = data
    target = {
        "archive": f"{site.url}/{id}-{version}.tar.gz",
        "cmd": "./bin/agent",
        "args": ["--acp"],
        "sha256": hashlib.sha256(data).hexdigest(),
        **changes,
    }
    target = {key: value for key, value in target.items() if value is not None}
    return entry(id, version, {"binary": {this_machine().platform: target}})


def entry(id: str, version: str, distribution: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of an index."""
    return {"id": id, "name": id.title(), "version": version, "description": "A test", "distribution": distribution}


def npm_package(site: Site, name: str, *versions: str, **members: Any) -> None:
    """Serve versions of an npm package."""
    rows, times = {}, {}
    for version in versions:
        project = {"name": name, "version": version, "bin": {name.rpartition("/")[2]: "agent.js"}, **members}
        code = NODE.format(result=RESULT % version).encode()
        data = tarball({"package/package.json": json.dumps(project).encode(), "package/agent.js": code})
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        site.pages[path] = data
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        dist = {"tarball": site.url + path, "integrity": integrity, "shasum": hashlib.sha1(data).hexdigest()}
        scripts = {"hasInstallScript": True} if "install" in str(members.get("scripts")) else {}
        rows[version] = {**project, **scripts, "dist": dist}
        times[version] = "2026-01-01T00:00:00.000Z"
    packument = {"name": name, "dist-tags": {"latest": versions[-1]}, "versions": rows, "time": times}
    site.pages[f"/{name.replace('/', '%2f')}"] = json.dumps(packument).encode()


def pypi_package(
    site: Site, name: str, version: str, *, requires_python: str = ">=3.9", requires: str = "", code: str = ""
) -> None:
    """Serve one version of a PyPI package as a wheel: an agent, or other code."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    buffer = io.BytesIO()
    files = {
        f"{module}.py": code or PYTHON.format(result=RESULT % version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        f"Requires-Python: {requires_python}\n" + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
    }
    record = "".join(f"{path},sha256={_record_hash(text)},{len(text)}\n" for path, text in files.items())
    with zipfile.ZipFile(buffer, "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            wheel.writestr(path, text)
    _serve_file(site, name, f"{module}-{version}-py3-none-any.whl", buffer.getvalue(), requires_python)


def _serve_file(site: Site, name: str, file: str, data: bytes, requires_python: str = ">=3.9") -> None:
    """Serve one file of a PyPI project."""
    site.pages[f"/files/{file}"] = data
    link = (
        f'<a href="/files/{file}#sha256={hashlib.sha256(data).hexdigest()}" data-requires-python="{requires_python}">'
    )
    page = site.pages.get(f"/simple/{name}/", b"")
    assert isinstance(page, bytes)
    site.pages[f"/simple/{name}/"] = page + f"{link.replace('>=', '&gt;=')}{file}</a>\n".encode()


def pypi_source(site: Site, name: str, version: str, builder: str) -> None:
    """Serve one version of a PyPI package as a source archive alone; the project `builder` builds it."""
    module = name.replace("-", "_")
    top = f"{module}-{version}"
    system = f'[build-system]\nrequires = ["{builder}"]\nbuild-backend = "{builder.replace("-", "_")}"\n'
    files = {
        f"{top}/pyproject.toml": f'{system}[project]\nname = "{name}"\nversion = "{version}"\n',
        f"{top}/PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{top}/{module}.py": "",
    }
    data = tarball({path: text.encode() for path, text in files.items()})
    _serve_file(site, name, f"{top}.tar.gz", data)


def _record_hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def publish(site: Site, *entries: dict[str, Any]) -> str:
    """Serve an index; return its address."""
    site.pages["/registry.json"] = json.dumps({"version": "1.0.0", "agents": list(entries)}).encode()
    return f"{site.url}/registry.json"
