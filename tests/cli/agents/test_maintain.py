"""`dragoman agents update`, `remove`, `lock`, `verify` and `doctor`."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from dragoman.config.paths import user_paths
from dragoman.registry.install import npm
from dragoman.registry.install.plan import Plan
from dragoman.registry.install.records import Record
from dragoman.registry.install.update import losses
from tests.registry.home import User, needs_npm, set_environment
from tests.registry.packages import binary_entry, entry, npm_package, pypi_package, pypi_source


@pytest.mark.item("RG-19")
def test_an_update_keeps_the_old_version_and_goes_back_without_a_network(user: User) -> None:
    user.publish(binary_entry(user.site, version="1.0.0"))
    user.install("small")
    assert user.run("update", "--check") == 0
    assert "1.0.0 is the newest" in user.out
    user.publish(binary_entry(user.site, version="1.1.0", args=["serve"]))
    assert user.json("update", "--check")[0]["changes"] == ["arguments: ['--acp'] -> ['serve']"]
    old = user.agent("small").command
    assert user.run("update", "--yes") == 0, user.err
    assert "small: 1.0.0 -> 1.1.0" in user.out
    assert user.agent("small").command != old
    assert os.path.exists(old)
    assert user.run("update", "small", "--to", "1.0.0", "--offline", refresh=False) == 0, user.err
    assert user.agent("small").command == old
    assert user.run("verify", "--offline", refresh=False) == 0, user.out


@pytest.mark.item("RG-19")
def test_an_update_that_loses_its_hash_stops(user: User) -> None:
    user.publish(binary_entry(user.site, version="1.0.0"))
    user.install("small")
    user.publish(binary_entry(user.site, version="1.1.0", sha256=None))
    assert user.run("update", "small", "--yes") == 5
    assert "nobody vouches for its bytes any more" in user.err
    assert "1.0.0" in user.agent("small").command
    assert user.run("update", "small", "--yes", "--accept-losses") == 0, user.err
    assert "1.1.0" in user.agent("small").command


def test_another_publisher_and_new_scripts_are_losses() -> None:
    old = Record(id="a", version="1", kind="npx", by="npm", date="", command=(), publisher="alice")
    from dragoman.registry.index.entry import Entry

    about = Entry(id="a", name="a", version="2")
    new = Plan(entry=about, kind="npx", version="2", by="npm", digest="", publisher="mallory", runs_scripts=("x",))
    assert losses(old, new) == ["another publisher: mallory, not alice", "install scripts would run: x"]


def test_settings_of_the_user_survive_an_update(user: User) -> None:
    user.publish(binary_entry(user.site, version="1.0.0", env={"MODEL": "small"}))
    user.install("small")
    path = Path(user_paths().config_file)
    text = path.read_text().replace('{ "MODEL" = "small" }', '{ "MODEL" = "large", "KEY" = "x" }')
    path.write_text(text + 'mode = "plan"\n')
    user.publish(binary_entry(user.site, version="1.1.0", env={"MODEL": "small"}))
    assert user.run("update", "--yes") == 0
    agent = user.agent("small")
    assert dict(agent.env) == {"MODEL": "large", "KEY": "x"}
    assert agent.mode == "plan"


@pytest.mark.item("RG-20")
def test_remove_removes_exactly_what_was_installed(user: User) -> None:
    user.publish(binary_entry(user.site), binary_entry(user.site, "other"))
    user.install("small")
    user.install("other")
    assert user.run("remove", "small") == 1  # nobody can be asked
    assert user.run("remove", "small", "--yes") == 0, user.err
    assert [name.partition("/")[0] for name in user.listed()] == ["other"]
    assert "small" not in Path(user_paths().config_file).read_text()
    assert "small" not in Path(user_paths().agents_lock).read_text()
    assert user.run("remove", "small", "--yes") == 1


@pytest.mark.item("RG-20")
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_remove_refuses_while_the_agent_runs(user: User) -> None:
    user.publish(binary_entry(user.site))
    user.install("small")
    running = subprocess.Popen(user.agent("small").argv, stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 10
        while b"agent" not in Path(f"/proc/{running.pid}/cmdline").read_bytes() and time.monotonic() < deadline:
            pass
        assert user.run("remove", "small", "--yes") == 1
        assert f"process {running.pid}" in user.err
    finally:
        running.kill()
        running.communicate()
    assert user.run("remove", "small", "--yes") == 0


@pytest.mark.item("RG-17")
def test_verify_finds_one_changed_byte_a_new_file_and_a_changed_manifest(user: User) -> None:
    user.publish(binary_entry(user.site))
    user.install("small")
    assert user.run("verify") == 0, user.out
    [folder] = (user.agents / "small").iterdir()
    data = folder / "files" / "data.txt"
    data.write_bytes(b"1.0.1")
    assert user.run("verify") == 1
    assert "changed: data.txt" in user.out
    data.write_bytes(b"1.0.0")
    assert user.run("verify") == 0
    data.chmod(0o755 if not data.stat().st_mode & 0o111 else 0o644)
    assert user.json("verify")[0]["differences"] == [{"path": "data.txt", "what": "changed"}]
    data.chmod(0o755)
    (folder / "files" / "sitecustomize.py").write_text("")
    assert user.json("verify")[0]["differences"] == [{"path": "sitecustomize.py", "what": "added"}]
    (folder / "files" / "sitecustomize.py").unlink()
    data.unlink()
    assert user.json("verify")[0]["differences"] == [{"path": "data.txt", "what": "missing"}]
    (folder / "manifest.json").write_text("{}")
    assert user.json("verify")[0]["differences"] == [{"path": "manifest.json", "what": "changed"}]


@pytest.mark.item("RG-18")
@needs_npm
def test_verify_tells_withdrawn_deprecated_quarantined_and_unknown_apart(user: User) -> None:
    npm_package(user.site, "agent", "1.0.0")
    pypi_package(user.site, "small-agent", "0.3.0")
    user.publish(
        entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}),
        entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}),
        binary_entry(user.site, "crow-cli"),
        binary_entry(user.site),
    )
    for id in ("agent", "python-agent", "crow-cli", "small"):
        assert user.install(id) == 0, user.err

    def states() -> dict[str, str]:
        return {row["name"]: row["version"] for row in user.json("verify")}

    assert states() == {"agent": "ok", "python-agent": "ok", "crow-cli": "quarantined", "small": "ok"}
    npm_package(user.site, "agent", "1.0.0", deprecated="use another")
    page = user.site.pages["/simple/small-agent/"]
    assert isinstance(page, bytes)
    user.site.pages["/simple/small-agent/"] = page.replace(b"<a ", b'<a data-yanked="broken" ')
    user.publish(binary_entry(user.site, "else"))
    (user.folder / "npm").rename(user.folder / "npm-before")
    assert states() == {
        "agent": "deprecated", "python-agent": "withdrawn", "crow-cli": "quarantined", "small": "withdrawn",
    }  # fmt: skip
    npm_package(user.site, "agent", "2.0.0")
    (user.folder / "npm").rename(user.folder / "npm-between")
    assert states()["agent"] == "withdrawn"
    assert user.run("verify", "agent", "--offline", refresh=False) == 0
    assert "version unknown  signature unknown  (offline)" in user.out


@pytest.mark.item("RG-17")
@needs_npm
def test_a_lock_installs_the_same_bytes_elsewhere(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_package(user.site, "agent", "1.0.0")
    pypi_package(user.site, "small-agent", "0.3.0")
    user.publish(
        entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}),
        entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}),
        binary_entry(user.site),
    )
    for id in ("agent", "python-agent", "small"):
        assert user.install(id) == 0, user.err
    lock = user.folder / "project" / "agents.lock"
    lock.parent.mkdir()
    assert user.run("lock", str(lock)) == 0
    assert user.run("lock", str(lock), "--check") == 0, user.out
    before = user.listed()
    elsewhere = user.folder / "elsewhere"
    set_environment(elsewhere, user.site, monkeypatch)
    npm._read_config.cache_clear()
    npm_package(user.site, "agent", "1.0.0", "1.0.1")  # newer ones are not taken
    user.publish()
    assert user.run("lock", str(lock), "--check") == 1
    assert "not installed" in user.out
    assert user.run("install", "--lock", str(lock), "--yes") == 0, user.err
    assert user.listed() == before
    assert user.run("lock", str(lock), "--check") == 0, user.out
    tree = lock.with_name("agents.lock.d") / "agent.package-lock.json"
    tree.write_bytes(tree.read_bytes() + b"\n")
    assert user.run("install", "--lock", str(lock), "agent", "--yes") == 5
    assert "the lock says SHA-256" in user.err


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('id = "small"', 'id = "../../../outside"', "its id is not made of"),
        ('kind = "binary"', 'kind = "odd"', "its kind is none of"),
        ('kind = "binary"', 'kind = "binary"\nenv = { LD_PRELOAD = "/x.so" }', "sets LD_PRELOAD"),
        ('kind = "binary"', 'kind = "binary"\nenv = { A = "\\u001b]52;" }', "control characters"),
        ('cmd = "', 'cmd = "../../', "leads out of the archive"),
        ("[agents.small", '[agents."../x"', "letters, digits"),
    ],
)
def test_a_hostile_lock_is_refused(user: User, before: str, after: str, reason: str) -> None:
    user.publish(binary_entry(user.site))
    assert user.install("small") == 0, user.err
    lock = user.folder / "agents.lock"
    assert user.run("lock", str(lock)) == 0
    text = lock.read_text()
    assert before in text
    lock.write_text(text.replace(before, after))
    inside = sorted(str(path) for path in user.folder.rglob("*"))
    assert user.run("install", "--lock", str(lock), "--yes") != 0
    assert reason in user.err
    assert "Traceback" not in user.err
    assert sorted(str(path) for path in user.folder.rglob("*")) == inside


@pytest.mark.item("RG-06", "RG-16", "RG-17")
@needs_npm
def test_a_folder_with_archives_tarballs_and_wheels_installs_the_same_bytes_without_a_network(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_package(user.site, "part", "1.1.0")
    npm_package(user.site, "agent", "1.0.0", dependencies={"part": "^1.0.0"})
    pypi_package(user.site, "small-agent", "0.3.0")
    user.publish(
        binary_entry(user.site),
        entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}),
        entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}),
    )
    for id in ("small", "agent", "python-agent"):
        assert user.install(id) == 0, user.err
    folder = user.folder / "usb"
    assert user.run("lock", str(user.folder / "team.lock"), "--fetch", str(folder)) == 0, user.err
    assert len(list((folder / "downloads").iterdir())) == 3
    assert [each.name for each in (folder / "wheels").iterdir()] == ["small_agent-0.3.0-py3-none-any.whl"]
    [first] = (user.agents / "agent").iterdir()

    set_environment(user.folder / "elsewhere", user.site, monkeypatch)  # another user, without caches
    before = len(user.site.requests)
    install = ["install", "--from", str(folder), "--offline", "--yes"]
    assert user.run("install", "--lock", str(folder / "agents.lock"), "--offline", "--yes", refresh=False) == 7
    assert user.run(*install, refresh=False) == 0, user.err
    assert len(user.site.requests) == before
    [second] = (user.agents / "agent").iterdir()
    assert (second / "manifest.json").read_bytes() == (first / "manifest.json").read_bytes()
    assert user.run("lock", str(folder / "agents.lock"), "--check", refresh=False) == 0, user.out
    assert user.run("verify", "--offline", refresh=False) == 0, user.out + user.err
    change_a_byte(second / "files" / "node_modules" / "part" / "agent.js")
    change_a_byte(next((user.agents / "python-agent").glob("*/files/lib/*/site-packages/small_agent.py")))
    assert user.run("verify", "--offline", refresh=False) == 1
    assert "changed: node_modules/part/agent.js" in user.out
    assert "site-packages/small_agent.py" in user.out

    set_environment(user.folder / "third", user.site, monkeypatch)
    for path in [*(folder / "downloads").iterdir(), *(folder / "wheels").iterdir()]:
        change_a_byte(path)
    for name in ("small", "agent", "python-agent"):
        assert user.run(*install, name, refresh=False) == 5, user.err
        assert "the lock" in user.err
    assert user.listed() == []


# A build backend: it makes a wheel of the only module beside pyproject.toml.
BUILDER = """
import glob, tomllib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open("pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    info, wheel = f"{name}-{version}.dist-info", f"{name}-{version}-py3-none-any.whl"
    files = {path: open(path).read() for path in glob.glob("*.py")}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    with zipfile.ZipFile(f"{folder}/{wheel}", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\\n" for path in [*files, f"{info}/RECORD"]))
    return wheel
"""


@pytest.mark.item("RG-16")
def test_a_folder_has_the_source_of_packages_that_are_built_and_what_builds_them(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    pypi_package(user.site, "small-builder", "1.0", code=BUILDER)
    pypi_source(user.site, "small-part", "2.0", "small-builder")
    pypi_package(user.site, "small-agent", "0.3.0", requires="small-part")
    user.publish(entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}))
    assert user.install("python-agent") == 5
    assert "--allow-scripts" in user.err
    assert user.install("python-agent", "--allow-scripts", "small-part") == 0, user.err
    folder = user.folder / "usb"
    assert user.run("lock", str(user.folder / "team.lock"), "--fetch", str(folder)) == 0, user.err
    assert sorted(each.name for each in (folder / "wheels").iterdir()) == [
        "builders.txt", "small_agent-0.3.0-py3-none-any.whl", "small_builder-1.0-py3-none-any.whl",
        "small_part-2.0.tar.gz",
    ]  # fmt: skip

    set_environment(user.folder / "elsewhere", user.site, monkeypatch)  # another user, without caches
    before = len(user.site.requests)
    install = ["install", "--from", str(folder), "--offline", "--yes"]
    assert user.run(*install, refresh=False) == 0, user.err
    assert len(user.site.requests) == before
    assert user.run("verify", "--offline", refresh=False) == 0, user.out

    for changed in ("small_part-2.0.tar.gz", "small_builder-1.0-py3-none-any.whl"):
        set_environment(user.folder / f"without-{changed}", user.site, monkeypatch)
        change_a_byte(folder / "wheels" / changed)
        assert user.run(*install, refresh=False) == 5, user.err
        assert changed in user.err
        change_a_byte(folder / "wheels" / changed)  # as it was


def change_a_byte(path: Path) -> None:
    """Change the last byte of a file; a second time changes it back."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@needs_npm
def test_an_agent_that_was_downloaded_before_is_installed_without_npm(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_package(user.site, "agent", "1.0.0", bin={"agent": "./agent.js", "other": "agent.js"})
    user.publish(entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}))
    assert user.install("agent") == 0, user.err
    lock = str(user.folder / "agents.lock")
    assert user.run("lock", lock) == 0
    [folder] = (user.agents / "agent").iterdir()
    by_npm = (folder / "manifest.json").read_bytes()
    assert b"node_modules/.bin/other" in by_npm
    assert user.run("remove", "agent", "--yes") == 0
    monkeypatch.setattr(npm, "fetch_packages", lambda *_: pytest.fail("npm was started"))
    assert user.run("install", "--lock", lock, "--yes", "--offline") == 0, user.err
    assert (folder / "manifest.json").read_bytes() == by_npm


@needs_npm
def test_the_doctor_checks_tools_registries_and_agents(user: User) -> None:
    user.publish(binary_entry(user.site))
    user.install("small")
    assert user.run("doctor") == 0, user.out
    assert "node and npm" in user.out
    os.unlink(user.agent("small").command)
    assert user.run("doctor") == 1
    assert "is gone; install it again" in user.out
    rows = {row["what"]: row["state"] for row in user.json("doctor")}
    assert rows["registry"] == "good"
    assert rows["small"] == "bad"
    assert json.dumps(rows)
