"""Agents as npm packages: resolve to the exact version with the hashes of all packages, then `npm ci` of that list."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from functools import cache
from typing import Any

from dragoman.config.private_files import write_private
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import Entry, Package
from dragoman.registry.install.npm_lock import LOCK_FILE, missing_part, needed_here, package_name, read_lock
from dragoman.registry.install.plan import Plan, Wishes, Workshop
from dragoman.registry.install.records import remove_tree
from dragoman.registry.install.tarballs import unpack_kept
from dragoman.registry.tools.find import Node, choose_node, find_nodes
from dragoman.registry.tools.run import TIMEOUT, Access, Output, run_tool
from dragoman.registry.versions import newest, sort_key

_MODULES, _HIDDEN_LOCK = "node_modules", ".package-lock.json"
# Asking for one package takes seconds. Seconds.
VIEW_TIMEOUT = 120.0
_FLAGS = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--omit-lockfile-registry-resolved")

_TOOL_HELP = (
    "install it from nodejs.org or your package manager, or let Dragoman bring it as a wheel from PyPI into its own "
    "folder: dragoman agents doctor --get node"
)


class Npm:
    """npm of one node, with the user's own configuration: registry, cache, certificates."""

    def __init__(self, node: Node, workshop: Workshop) -> None:
        self.node, self._workshop = node, workshop
        config = _read_config(node)
        self.cache = str(config.get("cache") or os.path.expanduser("~/.npm"))
        self.userconfig = str(config.get("userconfig") or os.path.expanduser("~/.npmrc"))
        self.registry = str(config.get("registry") or "")
        self._cafile = str(config.get("cafile") or "")
        self.min_age = _days(config.get("min-release-age"))
        os.makedirs(self.cache, mode=0o700, exist_ok=True)

    def run(self, words: list[str], cwd: str, *, uses_config: bool = True, timeout: float = VIEW_TIMEOUT) -> Output:
        """Run npm in a folder that it may write; scripts of packages get neither the configuration nor the cache."""
        env = {"npm_config_cache": self.cache if uses_config else os.path.join(cwd, ".npm-cache"), "NO_COLOR": "1"}
        env["PATH"] = os.pathsep.join([os.path.dirname(self.node.path), os.environ.get("PATH", os.defpath)])
        if uses_config:
            env["npm_config_userconfig"] = self.userconfig
        if self._workshop.ca:
            env["NODE_EXTRA_CA_CERTS"] = os.path.abspath(self._workshop.ca)
            if self._cafile:  # npm then trusts nothing else
                env["npm_config_cafile"] = self._write_bundle()
        flags = [*_FLAGS, *(["--offline"] if self._workshop.is_offline else [])]
        roots = [os.path.dirname(os.path.dirname(os.path.realpath(path))) for path in (self.node.path, self.node.npm)]
        read = [*roots, os.path.dirname(os.path.dirname(self.node.npm)), *([self.userconfig] if uses_config else [])]
        certificates = (env.get("NODE_EXTRA_CA_CERTS"), os.environ.get("NODE_EXTRA_CA_CERTS"), self._cafile)
        read += [path for path in (*certificates, env.get("npm_config_cafile")) if path]
        access = Access(write=[cwd, *([self.cache] if uses_config else [])], read=read)
        return run_tool([self.node.path, self.node.npm, *words, *flags], cwd, access, env, timeout=timeout)

    def _write_bundle(self) -> str:
        """Write the user's authorities of npm and the one of --ca into one file; return its path."""
        data = b""
        for path in (self._cafile, self._workshop.ca):
            try:
                with open(path, "rb") as file:
                    data += file.read() + b"\n"
            except OSError as error:
                raise RegistryFault("network", f"{path}: {error.strerror}") from None
        bundle = os.path.join(self._workshop.paths.cache, "npm-ca.pem")
        write_private(bundle, data)
        return bundle

    def view(self, spec: str, folder: str) -> dict[str, Any]:
        """Return what the registry of npm knows of a package; {} if it has no such version."""
        ended = self.run(["view", spec, "--json"], folder)
        try:
            value = json.loads(ended.stdout) if ended.stdout.strip() else {}
        except ValueError:
            value = {}
        if isinstance(value, list):  # several versions match
            value = value[-1] if value else {}
        error = value.get("error") if isinstance(value, dict) else None
        if isinstance(error, dict):
            if error.get("code") == "E404":
                return {}
            raise RegistryFault("network", f"npm: {error.get('code')}: {error.get('summary')}")
        if ended.status and not value:
            raise RegistryFault("network", f"npm view {spec} failed:\n{ended.tail}")
        return value if isinstance(value, dict) else {}


@cache
def _read_config(node: Node) -> dict[str, Any]:
    """Return the user's configuration of npm; read outside the sandbox, which has no home."""
    command = [node.path, node.npm, "config", "list", "--json"]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=VIEW_TIMEOUT, stdin=subprocess.DEVNULL)
        value = json.loads(ended.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return value if isinstance(value, dict) else {}


def _days(value: Any) -> float:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return 0.0


def resolve_npm(entry: Entry, package: Package, wishes: Wishes, workshop: Workshop, version: str) -> Plan:
    """Return the plan for an npm package; `version` is exact, or "latest"."""
    nodes = find_nodes(workshop.tools, workshop.section.node)
    if not nodes:
        raise RegistryFault("tool", f"{entry.id} needs node with npm, and there is none; {_TOOL_HELP}", tool="node")
    workshop.report(f"asking npm for {package.name} {version}")
    npm = Npm(nodes[0], workshop)
    with tempfile.TemporaryDirectory(prefix="dragoman-npm-") as folder:
        known = npm.view(f"{package.name}@{version}", folder)
        if not known:
            raise _missing_version(npm, package, version, folder)
        known = _old_enough(npm, known, package, wishes, folder)
        version = str(known.get("version", ""))
        wanted = str((known.get("engines") or {}).get("node") or "*")
        node = choose_node(nodes, wanted)
        if node is None:
            found = ", ".join(f"{each.version} at {each.path}" for each in nodes)
            raise RegistryFault(
                "tool", f"{entry.id} {version} needs node {wanted}; found {found}; {_TOOL_HELP}", tool="node"
            )
        workshop.report(f"resolving the packages of {package.name} {version}")
        npm.node = node
        tree = _lock(npm, package.name, version, folder)
        rows = read_lock(tree)
        part = "" if workshop.is_offline else missing_part(rows, package.name)
        if part:
            raise _missing_part(npm, known, part, folder)
    scripts = tuple(sorted({package_name(path) for path, row in rows.items() if row.get("hasInstallScript")}))
    unknown = [name for name in wishes.allow_scripts if name not in scripts]
    if unknown:
        raise RegistryFault("scripts", f"no package called {', '.join(unknown)} has an install script")
    own = rows.get(f"node_modules/{package.name}", {})
    publisher = (known.get("_npmUser") or {}) if isinstance(known.get("_npmUser"), dict) else {}
    return Plan(
        entry=entry,
        kind=package.kind,
        version=version,
        by="npm",
        digest=hashlib.sha256(tree).hexdigest(),
        args=package.args,
        env=package.env,
        cmd=package.cmd,
        package=f"{package.name}@{version}",
        integrity=str(own.get("integrity", "")),
        tree=tree,
        packages=len(rows),
        size=(known.get("dist") or {}).get("unpackedSize"),
        scripts=scripts,
        runs_scripts=wishes.allow_scripts,
        publisher=str(publisher.get("name", "")),
        node=node,
        notes=tuple(["deprecated by its author"] if known.get("deprecated") else []),
        wishes=wishes,
    )


def _missing_version(npm: Npm, package: Package, version: str, folder: str) -> RegistryFault:
    latest = npm.view(package.name, folder)
    there = newest(latest.get("versions") or []) if latest else ""
    if not there:
        return RegistryFault(
            "version",
            f"npm has no package {package.name}, which the registry names; it may have been withdrawn: ask its "
            f"authors, or choose another agent with: dragoman agents search",
        )
    return RegistryFault(
        "version",
        f"npm does not have {package.name} {version} (the registry was faster than npm, or it was withdrawn); the "
        f"newest that is there is {there}: add @{there} to the name",
        newest=there,
    )


def _missing_part(npm: Npm, known: dict[str, Any], part: str, folder: str) -> RegistryFault:
    name, version = known.get("name"), str(known.get("version", ""))
    both = set(known.get("versions") or []) & set(npm.view(part, folder).get("versions") or [])
    there = newest([each for each in both if sort_key(each) < sort_key(version)])
    advice = f"; the newest that is whole is {there}: add @{there} to the name" if there else ""
    return RegistryFault(
        "version", f"npm does not have {part} {version}, the program of {name} {version} for this machine{advice}",
        newest=there,
    )  # fmt: skip


def _old_enough(npm: Npm, known: dict[str, Any], package: Package, wishes: Wishes, folder: str) -> dict[str, Any]:
    """Honor the user's `min-release-age`: a version that is too young is refused, or replaced by an older one."""
    times = known.get("time") or {}
    version = str(known.get("version", ""))
    age = _age_in_days(times.get(version))
    if not npm.min_age or age is None or age >= npm.min_age:
        return known
    old = [each for each in known.get("versions") or [] if (_age_in_days(times.get(each)) or 0) >= npm.min_age]
    fitting = newest([each for each in old if sort_key(each) < sort_key(version)])
    if wishes.at_most and fitting:
        return npm.view(f"{package.name}@{fitting}", folder)
    advice = f"; the newest old enough is {fitting}: add --at-most" if fitting else ""
    raise RegistryFault(
        "young",
        f"{package.name} {version} is {age:.0f} days old, your npm wants {npm.min_age:g}{advice}",
        newest=fitting,
    )


def _age_in_days(time: Any) -> float | None:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(str(time))).total_seconds() / 86400
    except (ValueError, TypeError):
        return None


def write_project(folder: str, name: str, version: str) -> None:
    """Write the package.json that wants one exact version."""
    project = {"name": "agent", "version": "0.0.0", "private": True, "dependencies": {name: version}}
    with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as file:
        json.dump(project, file)


def _lock(npm: Npm, name: str, version: str, folder: str) -> bytes:
    """Return the package-lock.json of one exact version."""
    write_project(folder, name, version)
    ended = npm.run(["install", "--package-lock-only", "--ignore-scripts"], folder)
    path = os.path.join(folder, LOCK_FILE)
    if ended.status or not os.path.exists(path):
        raise RegistryFault("version", f"npm cannot resolve {name} {version}:\n{ended.tail}")
    with open(path, "rb") as file:
        return file.read()


def install_npm(plan: Plan, workshop: Workshop, files: str) -> list[str]:
    """Install the packages of a plan into a folder; return the command relative to it, node first as "node"."""
    assert plan.node is not None
    name = plan.package.rpartition("@")[0]
    write_project(files, name, plan.version)
    with open(os.path.join(files, LOCK_FILE), "wb") as file:
        file.write(plan.tree)
    workshop.report(f"installing {plan.packages} packages")
    if not _unpack(plan, workshop, files):
        fetch_packages(plan, workshop, files)
    if plan.runs_scripts:
        workshop.report(f"running the install scripts of {', '.join(plan.runs_scripts)}")
        words = ["rebuild", "--foreground-scripts", *plan.runs_scripts]
        ended = Npm(plan.node, workshop).run(words, files, uses_config=False, timeout=TIMEOUT)
        if ended.status:
            raise RegistryFault("scripts", f"the install script failed; nothing was kept:\n{ended.tail}")
    return _command(plan, files, name)


def _unpack(plan: Plan, workshop: Workshop, files: str) -> bool:
    """Unpack packages that were downloaded before; return whether that was possible."""
    needed = needed_here(read_lock(plan.tree), plan.package.rpartition("@")[0])
    if needed is None:
        return False
    try:
        return unpack_kept(needed, files, workshop)
    except RegistryFault as fault:
        if fault.why != "archive" or workshop.given:
            raise
        remove_tree(os.path.join(files, _MODULES))  # npm has rules of its own, and takes packages that ours refuse
        return False


def fetch_packages(plan: Plan, workshop: Workshop, files: str) -> None:
    """Let npm download and install the packages of a plan into a folder that has its lock."""
    assert plan.node is not None
    npm = Npm(plan.node, workshop)
    ended = npm.run(["ci", "--ignore-scripts"], files, timeout=TIMEOUT)
    if ended.status and "EUSAGE" in ended.stderr:
        # Optional packages for other platforms that the registry does not have cannot be locked, and `npm ci` minds.
        ended = npm.run(["install", "--ignore-scripts", "--no-save"], files, timeout=TIMEOUT)
        if not ended.status:
            _check_installed(files, plan)
    if ended.status:
        why = "hash" if "EINTEGRITY" in ended.stderr else "disk" if "ENOSPC" in ended.stderr else "network"
        raise RegistryFault(why, f"npm ci of {plan.package} failed; nothing was kept:\n{ended.tail}")
    hidden = os.path.join(files, _MODULES, _HIDDEN_LOCK)  # only npm's own record: the same files, however they came
    if os.path.exists(hidden):
        os.unlink(hidden)


def _check_installed(files: str, plan: Plan) -> None:
    """Check that npm installed nothing but what the lock has; raise RegistryFault."""
    locked = read_lock(plan.tree)
    with open(os.path.join(files, _MODULES, _HIDDEN_LOCK), "rb") as file:
        installed = read_lock(file.read())
    for path, row in installed.items():
        if row.get("integrity") != locked.get(path, {}).get("integrity"):
            raise RegistryFault("hash", f"npm installed {package_name(path)} with another hash than its lock")
    with open(os.path.join(files, LOCK_FILE), "wb") as lock:
        lock.write(plan.tree)


def _command(plan: Plan, files: str, name: str) -> list[str]:
    folder = os.path.join(files, _MODULES, *name.split("/"))
    try:
        with open(os.path.join(folder, "package.json"), "rb") as file:
            project = json.load(file)
    except (OSError, ValueError) as error:
        raise RegistryFault("version", f"{name} was not installed: {error}") from None
    if project.get("version") != plan.version:
        raise RegistryFault("version", f"npm installed {name} {project.get('version')} instead of {plan.version}")
    program = _program(project, name, plan.cmd)
    path = os.path.join(folder, *program.split("/"))
    if not os.path.isfile(path):
        why = f"; its install script was not run ({', '.join(plan.scripts)}): --allow-scripts" if plan.scripts else ""
        raise RegistryFault("scripts", f"{name} has no file {program}, which it names as its command{why}")
    relative = os.path.relpath(path, files)
    with open(path, "rb") as file:
        head = file.read(128)
    is_script = head.startswith(b"#!") and b"node" in head.partition(b"\n")[0]
    if is_script or path.endswith((".js", ".mjs", ".cjs")):
        return ["node", relative]
    os.chmod(path, 0o755)
    return [relative]


def _program(project: dict[str, Any], name: str, cmd: str) -> str:
    """Return the path of the command of a package by the rules of npx."""
    programs = project.get("bin")
    short = name.rpartition("/")[2]
    table = {short: programs} if isinstance(programs, str) else programs if isinstance(programs, dict) else {}
    wanted = cmd or short
    path = table.get(wanted)
    if path is None and not cmd and len(set(table.values())) == 1:
        path = next(iter(table.values()))
    if not isinstance(path, str):
        raise RegistryFault("version", f"{name} has no command {wanted!r}; it has {', '.join(table) or 'none'}")
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]  # as npm reads it
    return "/".join(parts)
