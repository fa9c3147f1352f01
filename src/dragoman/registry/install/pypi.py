"""Agents as PyPI packages: resolve with uv to exact versions with hashes, then install wheels only, into their own
environment.
"""

from __future__ import annotations

import configparser
import glob
import hashlib
import os
import re
import shlex
import tempfile

from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import Entry, Package
from dragoman.registry.install.bytecode import compile_modules
from dragoman.registry.install.plan import Plan, Wishes, Workshop
from dragoman.registry.install.pypi_list import PIN, check_list
from dragoman.registry.tools.find import Program, find_pythons, find_uv
from dragoman.registry.tools.run import TIMEOUT, Access, Output, run_tool

TREE_FILE = "requirements.txt"
# In a folder of `lock --fetch`: what builds the packages that have no wheel, with hashes.
BUILDERS_FILE = "builders.txt"
SOURCES = (".tar.gz", ".zip")
# Hundreds of packages with their metadata, over a slow network. Seconds.
RESOLVE_TIMEOUT = 600.0
_WRONG_PYTHON = re.compile(r"requires Python|Requires-Python|does not satisfy Python|Python version", re.I)

_TOOL_HELP = (
    "install it from docs.astral.sh/uv, or let Dragoman bring it as a wheel from PyPI into its own folder: "
    "dragoman agents doctor --get uv"
)


def resolve_pypi(entry: Entry, package: Package, wishes: Wishes, workshop: Workshop, version: str) -> Plan:
    """Return the plan for a PyPI package; `version` is exact, or "latest"."""
    uv = find_uv(workshop.tools)
    if uv is None:
        raise RegistryFault("tool", f"{entry.id} needs uv, and there is none; {_TOOL_HELP}", tool="uv")
    pythons = find_pythons()
    extras = f"[{','.join(package.extras)}]" if package.extras else ""
    spec = f"{package.name}{extras}" + ("" if version == "latest" else f"=={version}")
    workshop.report(f"resolving the packages of {spec}")
    python, text = _resolve(uv, pythons, spec, package, wishes, workshop)
    pins = {normal_name(name): pinned for name, pinned in PIN.findall(text)}
    found = pins.get(normal_name(package.name), "")
    if version != "latest" and found != version:
        raise RegistryFault("version", f"uv resolved {package.name} {found} instead of {version}")
    tree = text.encode()
    return Plan(
        entry=entry,
        kind=package.kind,
        version=found,
        by="pypi",
        digest=hashlib.sha256(tree).hexdigest(),
        args=package.args,
        env=package.env,
        cmd=package.cmd,
        package=f"{package.name}{extras}=={found}",
        tree=tree,
        packages=len(pins),
        runs_scripts=wishes.allow_scripts,
        uv=uv,
        python=python,
        wishes=wishes,
    )


def _resolve(
    uv: Program, pythons: list[Program], spec: str, package: Package, wishes: Wishes, workshop: Workshop
) -> tuple[Program, str]:
    """Return the first Python, the newest first, for which the package resolves, and the list with hashes."""
    refused = ""
    for python in pythons:
        ended, text = _compile(uv, python, [spec], _only_wheels(wishes), workshop)
        if ended.status == 0:
            return python, text
        refused = ended.tail
        if not _WRONG_PYTHON.search(refused):
            break
    raise _refusal(spec, package, refused, pythons)


def _compile(
    uv: Program, python: Program, wanted: list[str], flags: list[str], workshop: Workshop
) -> tuple[Output, str]:
    """Return how uv ended, and the list of exact versions with hashes."""
    with tempfile.TemporaryDirectory(prefix="dragoman-uv-") as folder:
        with open(os.path.join(folder, "wanted.in"), "w", encoding="utf-8") as file:
            file.writelines(f"{each}\n" for each in wanted)
        words = ["pip", "compile", "wanted.in", "--generate-hashes", "--no-header", "--no-annotate", "-q"]
        words += ["--python", python.path, "--output-file", TREE_FILE, *flags]
        ended = _run_uv(uv, [words], folder, workshop, read=_python_folders(python))
        if ended.status:
            return ended, ""
        with open(os.path.join(folder, TREE_FILE), encoding="utf-8") as file:
            return ended, file.read()


def lock_builders(plan: Plan, wanted: list[str], workshop: Workshop) -> bytes:
    """Return the list, with hashes, of the packages that build a plan's packages without a wheel."""
    assert plan.uv is not None
    assert plan.python is not None
    ended, text = _compile(plan.uv, plan.python, wanted, _only_wheels(Wishes()), workshop)
    if ended.status:
        raise RegistryFault(
            "version", f"uv cannot resolve {', '.join(wanted)}, which build {plan.package}:\n{ended.tail}"
        )
    return text.encode()


def _refusal(spec: str, package: Package, tail: str, pythons: list[Program]) -> RegistryFault:
    if _WRONG_PYTHON.search(tail):
        found = ", ".join(f"{each.version} at {each.path}" for each in pythons[:3]) or "none"
        return RegistryFault(
            "tool", f"{spec} needs another Python; found {found}; install one, for example: uv python install\n{tail}"
        )
    if "no wheels" in tail or "building from source is disabled" in tail.lower():
        return RegistryFault(
            "scripts", f"a package of {spec} has no wheel, and building it runs its code: --allow-scripts NAME\n{tail}"
        )
    if "not found in the package registry" in tail or "no version of" in tail or "there are no versions" in tail:
        return RegistryFault(
            "version",
            f"PyPI does not have {spec} (the registry was faster than PyPI, or it was withdrawn); for the "
            f"newest that is there add @latest to the name\n{tail}",
        )
    return RegistryFault("network", f"uv cannot resolve {spec}:\n{tail}")


def _only_wheels(wishes: Wishes) -> list[str]:
    """Return the flags that keep packages from being built, which runs their code, except for those named."""
    words = ["--only-binary", ":all:"]
    for name in wishes.allow_scripts:
        words += ["--no-binary", name]
    return words


def _run_uv(
    uv: Program,
    steps: list[list[str]],
    folder: str,
    workshop: Workshop,
    *,
    read: list[str],
    timeout: float = RESOLVE_TIMEOUT,
) -> Output:
    """Run uv for each step until one fails, in one sandbox: to make one takes as long as a step."""
    cache = os.environ.get("UV_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "uv"
    )
    os.makedirs(cache, mode=0o700, exist_ok=True)
    env = {"UV_CACHE_DIR": cache, "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"}
    if index := os.environ.get("PIP_INDEX_URL", ""):
        env.setdefault("UV_DEFAULT_INDEX", os.environ.get("UV_DEFAULT_INDEX") or index)
    if workshop.ca:
        env["SSL_CERT_FILE"] = os.path.abspath(workshop.ca)
    settings = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "uv", "uv.toml")
    env |= {"UV_CONFIG_FILE": settings} if os.path.exists(settings) else {"UV_NO_CONFIG": "1"}
    certificates = [env.get(name) or os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")]
    read = [*read, os.path.dirname(os.path.realpath(uv.path)), settings, *filter(None, certificates)]
    flags = ["--offline"] if workshop.is_offline else []
    access = Access(write=[folder, cache], read=read)
    commands = [shlex.join([uv.path, *words, *flags]) for words in steps]
    return run_tool(["/bin/sh", "-c", " && ".join(commands)], folder, access, env, timeout=timeout)


def _python_folders(python: Program) -> list[str]:
    real = os.path.realpath(python.path)
    return [os.path.dirname(os.path.dirname(path)) for path in (real, python.path)]


def install_pypi(plan: Plan, workshop: Workshop, files: str) -> list[str]:
    """Install the packages of a plan into an environment; return the command relative to it."""
    assert plan.uv is not None
    assert plan.python is not None
    read = _python_folders(plan.python)
    tree = check_list(plan.tree, f"the list of packages of {plan.package}")
    with open(os.path.join(files, TREE_FILE), "wb") as file:
        file.write(plan.tree)
    workshop.report(f"installing {plan.packages} packages")
    source = []
    if wheels := os.path.abspath(workshop.given_wheels) if workshop.given else "":
        builders = os.path.join(wheels, BUILDERS_FILE)
        _check_wheels(wheels, tree)
        read, source = [*read, wheels], ["--no-index", "--find-links", wheels]
        if os.path.exists(builders):
            with open(builders, "rb") as given:
                _check_wheels(wheels, check_list(given.read(), builders))
            source += ["--build-constraints", builders]
    python = os.path.join(files, "bin", "python")
    steps = [
        ["venv", "--relocatable", "--allow-existing", "--python", plan.python.path, files, "-q"],
        ["pip", "install", "--require-hashes", *_only_wheels(plan.wishes), "-q", "-r", TREE_FILE, "--python", python,
         *source],
    ]  # fmt: skip
    ended = _run_uv(plan.uv, steps, files, workshop, read=read, timeout=TIMEOUT)
    if ended.status:
        why = "hash" if "hash mismatch" in ended.stderr.lower() else "network"
        why = "disk" if "No space left" in ended.stderr else why
        raise RegistryFault(why, f"uv failed to install {plan.package}; nothing was kept:\n{ended.tail}")
    compile_modules(files, plan.python, read, workshop.paths.cache)
    script = os.path.join("bin", _script(plan, files))
    if not os.path.isfile(os.path.join(files, script)):
        raise RegistryFault("version", f"{plan.package} has no command {os.path.basename(script)}")
    return [os.path.join("bin", "python"), script]


def _check_wheels(folder: str, text: str) -> None:
    """Compare the files of a folder that a list names with its hashes; raise RegistryFault."""
    pins = {(normal_name(name), version) for name, version in PIN.findall(text)}
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if named_in(file) not in pins:
            continue
        path = os.path.join(folder, file)
        with open(path, "rb") as wheel:
            found = hashlib.file_digest(wheel, "sha256").hexdigest()
        if f"--hash=sha256:{found}" not in text:
            raise RegistryFault("hash", f"{path}: its SHA-256 is {found}, which the lock does not have")


def _script(plan: Plan, files: str) -> str:
    """Return the name of the command: `cmd`, that of the package, or the only one."""
    if plan.cmd:
        return plan.cmd
    name = re.split(r"[\[=]", plan.package)[0]
    pattern = os.path.join(glob.escape(files), "lib", "python*", "site-packages", "*.dist-info", "entry_points.txt")
    for path in glob.glob(pattern):
        folder = os.path.basename(os.path.dirname(path)).removesuffix(".dist-info")
        if normal_name(folder.rpartition("-")[0]) != normal_name(name):
            continue
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # type: ignore[assignment]
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
        scripts = list(parser["console_scripts"]) if parser.has_section("console_scripts") else []
        same = [script for script in scripts if normal_name(script) == normal_name(name)]
        if same or len(scripts) == 1:
            return (same or scripts)[0]
    return name


def named_in(file: str) -> tuple[str, str]:
    """Return project and version of a wheel or a source archive, by its name."""
    if file.endswith(SOURCES):
        name, _, version = re.sub(r"\.(tar\.gz|zip)$", "", file).rpartition("-")
    else:
        name, version = [*file.split("-"), "", ""][:2]
    return normal_name(name), version


def normal_name(name: str) -> str:
    """Return the name of a project as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
