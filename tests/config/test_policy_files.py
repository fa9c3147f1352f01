"""Which policy applies: the user's file, the projects' as far as they are trusted, and both as they are now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.config.paths import UserPaths, user_paths
from dragoman.config.policy_files import PolicyLoader, TrustedFiles
from dragoman.errors import ConfigFault
from dragoman.policy.decide import decide
from dragoman.policy.question import Question

ALLOW = '[[rule]]\ndecision = "allow"\noperation = "file_write"\n'
DENY = '[[rule]]\ndecision = "deny"\noperation = "file_write"\n'


class Home:
    """A user with a project."""

    def __init__(self, folder: Path) -> None:
        self.places: UserPaths = user_paths({"HOME": str(folder), "XDG_CONFIG_HOME": "relative", "XDG_STATE_HOME": ""})
        self.project = folder / "project"
        self.file = self.project / ".dragoman" / "policy.toml"
        self.file.parent.mkdir(parents=True)
        os.makedirs(self.places.config)
        self.roots = (str(self.project),)
        self.policies = PolicyLoader(self.places)

    def write(self, text: str) -> None:
        """The user's own policy."""
        Path(self.places.policy).write_text(text)

    def verdict(self, name: str = "a", operation: str = "file_write", mode: str = "default") -> str:
        """What is decided about a file of the project."""
        question = Question(operation=operation, resource=str(self.project / name), roots=self.roots, mode=mode)
        return decide(self.policies(self.roots), question).verdict.label


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A user with a project, and no policy yet."""
    return Home(tmp_path.resolve())


def test_paths_follow_the_xdg_rules(tmp_path: Path) -> None:
    found = user_paths({"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "not/absolute"})
    assert found.policy == "/c/dragoman/policy.toml"
    assert found.grants == "/h/.local/state/dragoman/grants.json"
    assert found.data == "/h/.local/share/dragoman"


def test_our_files_are_protected_in_every_folder_of_a_session() -> None:
    found = user_paths({"HOME": "/h"})
    protected = found.protected_paths(["/w", "/v"])
    own = {found.config, found.state, found.data, found.cache, found.policy, ".dragoman"}
    assert set(protected) == own | {"/w/.dragoman/policy.toml", "/v/.dragoman/policy.toml"}
    for file in (found.policy, found.grants, found.trust, found.audit):
        assert any(file.startswith(place + "/") for place in protected)


def test_without_files_the_mode_decides(home: Home) -> None:
    assert home.verdict() == "ask"


def test_the_users_file_applies_and_is_read_again_when_it_changes(home: Home) -> None:
    home.write(ALLOW)
    assert home.verdict() == "allow"
    home.write(DENY + "# changed\n")
    assert home.verdict() == "deny"
    os.unlink(home.places.policy)
    assert home.verdict() == "ask"


def test_the_users_file_chooses_the_mode(home: Home) -> None:
    home.write('mode = "plan"')
    assert home.policies(home.roots).mode == "plan"


def test_an_untrusted_project_file_can_only_make_decisions_stricter(home: Home) -> None:
    home.file.write_text(ALLOW)
    assert home.verdict() == "ask"
    TrustedFiles(home.places.trust).trust(str(home.file), home.file.read_bytes())
    assert home.verdict() == "allow"
    home.file.write_text(ALLOW + "# one more line\n")
    assert home.verdict() == "ask"
    home.file.write_text(DENY)
    assert home.verdict() == "deny"


def test_roots_of_the_users_file_are_folders_of_every_session(home: Home, tmp_path: Path) -> None:
    notes = tmp_path.resolve() / "notes"
    reading = Question(operation="file_read", resource=f"{notes}/a", roots=home.roots)
    assert decide(home.policies(home.roots), reading).verdict.label == "ask"
    home.write('roots = ["~/notes"]')
    policy = home.policies(home.roots)
    assert policy.roots == (str(notes),)
    assert decide(policy, reading).verdict.label == "allow"
    beside = Question(operation="file_read", resource=f"{notes}-too/a", roots=home.roots)
    assert decide(policy, beside).verdict.label == "ask"


@pytest.mark.parametrize(
    ("root", "path", "verdict"),
    [
        ("/h/.dragoman/work", "/h/.dragoman/work/a", "allow"),
        ("/h/.dragoman/work", "/h/.dragoman/work/.dragoman/a", "deny"),
        ("/h/.dragoman/work", "/h/.dragoman/policy.toml", "deny"),
        ("/h/.dragoman", "/h/.dragoman/policy.toml", "deny"),
        ("/h", "/h/deep/.dragoman/a", "deny"),
    ],
)
def test_a_dragoman_folder_above_the_project_does_not_protect_the_project(
    home: Home, root: str, path: str, verdict: str
) -> None:
    question = Question(operation="file_write", resource=path, roots=(root,), mode="bypassPermissions")
    assert decide(home.policies((root,)), question).verdict.label == verdict


def test_trust_can_be_revoked(home: Home) -> None:
    home.file.write_text(ALLOW)
    trust = TrustedFiles(home.places.trust)
    trust.trust(str(home.file), home.file.read_bytes())
    assert home.verdict() == "allow"
    assert trust.revoke(str(home.file))
    assert not trust.revoke(str(home.file))
    assert home.verdict() == "ask"


def test_trust_applies_to_one_file_not_to_a_copy_of_it(home: Home, tmp_path: Path) -> None:
    trust = TrustedFiles(home.places.trust)
    trust.trust(str(home.file), b"x")
    assert trust.is_trusted(str(home.file), b"x")
    assert not trust.is_trusted(str(tmp_path / "other.toml"), b"x")


def test_a_trusted_project_cannot_allow_what_the_user_denies(home: Home) -> None:
    home.write(DENY)
    home.file.write_text(ALLOW)
    TrustedFiles(home.places.trust).trust(str(home.file), home.file.read_bytes())
    assert home.verdict() == "deny"


def test_an_invalid_file_raises_at_the_start_and_denies_everything_during_a_session(home: Home) -> None:
    home.write(ALLOW)
    home.file.write_text("[[rule]\n")
    assert home.verdict() == "deny"
    assert home.verdict(operation="file_read", mode="bypassPermissions") == "deny"
    with pytest.raises(ConfigFault, match=r"\.dragoman/policy\.toml: line 1"):
        home.policies.load(home.roots)


def test_every_invalid_file_is_reported(home: Home) -> None:
    home.write("x = 1")
    home.file.write_bytes(b"a = 1\n# \xff")
    with pytest.raises(ConfigFault) as raised:
        home.policies.load(home.roots)
    assert len(raised.value.faults) == 2
    assert "line 2: the file is not UTF-8" in raised.value.faults[1]


def test_a_policy_path_that_is_not_a_file_is_an_error(home: Home) -> None:
    home.file.mkdir()
    assert home.verdict(operation="file_read") == "deny"
    with pytest.raises(ConfigFault, match="directory"):
        home.policies.load(home.roots)


def test_a_damaged_trust_file_trusts_nothing(home: Home) -> None:
    home.file.write_text(ALLOW)
    os.makedirs(home.places.state)
    Path(home.places.trust).write_text("{")
    assert home.verdict() == "deny"


def test_another_file_can_replace_the_users_own(home: Home, tmp_path: Path) -> None:
    home.write(DENY)
    (tmp_path / "other.toml").write_text(ALLOW)
    policies = PolicyLoader(home.places, user_file=str(tmp_path / "other.toml"))
    question = Question(operation="file_write", resource=str(home.project / "a"), roots=home.roots)
    assert decide(policies(home.roots), question).verdict.label == "allow"
    assert str(tmp_path / "other.toml") in policies.protected_paths(home.roots)


def test_a_named_file_must_exist(home: Home, tmp_path: Path) -> None:
    with pytest.raises(ConfigFault, match=r"none\.toml: No such file"):
        PolicyLoader(home.places, user_file=str(tmp_path / "none.toml")).load(home.roots)


def test_the_target_of_a_link_in_our_folder_is_protected_too(home: Home) -> None:
    """Dotfiles are often kept elsewhere, and linked."""
    real = home.project / "dotfiles.toml"
    real.write_text(ALLOW)
    os.symlink(real, home.places.policy)
    assert home.verdict("dotfiles.toml") == "deny"
    assert home.verdict("sub/.dragoman/policy.toml") == "deny"
    assert home.verdict("other.toml") == "allow"
