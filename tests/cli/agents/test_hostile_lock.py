"""A lock that somebody else wrote, with lists of packages that have the right hash: it runs no code unannounced."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tests.registry.home import User, needs_npm
from tests.registry.packages import entry, npm_package, pypi_package, pypi_source


def lock_python_agent(user: User) -> Path:
    """Install an agent of PyPI, lock it, and remove it; return the lock."""
    pypi_package(user.site, "small-agent", "0.3.0")
    user.publish(entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}))
    return lock_agent(user, "python-agent")


def lock_npm_agent(user: User) -> Path:
    """Install an agent of npm, lock it, and remove it; return the lock."""
    npm_package(user.site, "agent", "1.0.0")
    user.publish(entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}))
    return lock_agent(user, "agent")


def lock_agent(user: User, id: str) -> Path:
    assert user.install(id) == 0, user.err
    lock = user.folder / "agents.lock"
    assert user.run("lock", str(lock)) == 0, user.err
    assert user.run("remove", id, "--yes") == 0, user.err
    return lock


def change_list(lock: Path, name: str, text: str) -> None:
    """Replace a list of packages, with its hash in the lock."""
    path = lock.with_name("agents.lock.d") / name
    path.write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    lock.write_text(re.sub(r'tree = "[0-9a-f]*"', f'tree = "{digest}"', lock.read_text()))


def test_an_option_in_the_list_of_a_lock_builds_nothing(user: User) -> None:
    lock = lock_python_agent(user)
    proof = user.folder / "uv" / "built"  # uv's cache, which the sandbox lets a build write
    proof.parent.mkdir(exist_ok=True)
    pypi_package(user.site, "evil-builder", "1.0", code=f"open({str(proof)!r}, 'w').close()\n")
    pypi_source(user.site, "evil", "1.0", "evil-builder")
    source = user.site.pages["/files/evil-1.0.tar.gz"]
    assert isinstance(source, bytes)
    evil = f"evil==1.0 --hash=sha256:{hashlib.sha256(source).hexdigest()}\n"
    text = (lock.with_name("agents.lock.d") / "python-agent.requirements.txt").read_text()
    for line in ("--no-binary evil\n", "--no-binary=:all:\n"):
        change_list(lock, "python-agent.requirements.txt", f"{line}{text}{evil}")
        code = user.run("install", "--lock", str(lock), "--yes")
        assert not proof.exists()
        assert code == 5
        assert "line 1: '--no-binary" in user.err
    change_list(lock, "python-agent.requirements.txt", f"{text}{evil}")
    assert user.run("install", "--lock", str(lock), "--yes") != 0
    assert "building from source is disabled" in user.err
    assert not proof.exists()
    change_list(lock, "python-agent.requirements.txt", text)
    assert user.run("install", "--lock", str(lock), "--yes") == 0, user.err


def assert_refused(user: User, lock: Path, before: str, after: str, reason: str) -> None:
    """Change a lock, and see that nothing is installed from it."""
    text = lock.read_text()
    assert before in text
    lock.write_text(text.replace(before, after))
    assert user.run("install", "--lock", str(lock), "--yes") == 5
    assert reason in user.err
    assert "Traceback" not in user.err
    assert user.listed() == []


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('package = "small-agent==0.3.0"', 'package = "../../../x==0.3.0"', "not a name with its version"),
        ('package = "small-agent==0.3.0"', 'package = "small-agent==0.4.0"', "not a name with its version"),
        ('by = "pypi"', 'by = "nobody"', "nobody but pypi vouches"),
        ("tree = ", 'scripts = [":all:"]\ntree = ', "not names of packages"),
        ("tree = ", 'scripts = ["--index-url=https://evil.example"]\ntree = ', "not names of packages"),
    ],
)
def test_a_lock_gives_uv_only_names_and_versions(user: User, before: str, after: str, reason: str) -> None:
    assert_refused(user, lock_python_agent(user), before, after, reason)


@needs_npm
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('package = "agent@1.0.0"', 'package = "../../../agent@1.0.0"', "not a name with its version"),
        ("1.0.0", "git+https://evil.example/x", "not a name with its version"),
        ('by = "npm"', 'by = "nobody"', "nobody but npm vouches"),
        ("tree = ", 'scripts = ["--script-shell=/tmp/evil"]\ntree = ', "not names of packages"),
    ],
)
def test_a_lock_gives_npm_only_names_and_versions(user: User, before: str, after: str, reason: str) -> None:
    assert_refused(user, lock_npm_agent(user), before, after, reason)
