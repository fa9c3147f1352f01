"""A sandbox as values: how it is parsed, and how it is enforced on machines with more or less support."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from dragoman import Limits, Sandbox, SandboxUnavailable
from dragoman.config.paths import protect_user_files
from dragoman.transport.sandbox import bubblewrap, landlock, seccomp, system_paths
from dragoman.transport.sandbox.plan import SandboxSupport, plan_sandbox
from dragoman.transport.sandbox.spec import NetworkAccess, contains_path, filter_environment, parse_network
from tests.transport.sandbox.bpf import ALLOWED, verdict

BWRAP = "/usr/bin/bwrap"


def machine(abi: int = 6, bwrap: str | None = None, why: str = "bubblewrap (bwrap) is not installed") -> SandboxSupport:
    """A machine with this support."""
    return SandboxSupport(abi, lambda _: (bwrap, "" if bwrap else why), "x86_64")


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("none", NetworkAccess(frozenset(), False)),
        ("all", NetworkAccess(None, False)),
        ("443", NetworkAccess(frozenset({443}), False)),
        ("443, 8080", NetworkAccess(frozenset({443, 8080}), False)),
        ("unix", NetworkAccess(frozenset(), True)),
        ("all,unix", NetworkAccess(None, True)),
        ("443,unix", NetworkAccess(frozenset({443}), True)),
    ],
)
def test_the_network_is_parsed(words: str, meaning: NetworkAccess) -> None:
    assert parse_network(words) == meaning


@pytest.mark.parametrize("words", ["", "0", "65536", "-1", "http", "443;80", "all,443", "none,443", "all,none", "²"])
def test_an_invalid_network_is_refused_with_the_valid_values(words: str) -> None:
    with pytest.raises(ValueError, match="none, all"):
        Sandbox(net=words)


def test_an_invalid_sandbox_names_the_invalid_member() -> None:
    with pytest.raises(ValueError, match="landlock, bubblewrap"):
        Sandbox(mechanism="docker")
    with pytest.raises(ValueError, match=r"read=\('/data',\)"):
        Sandbox(read="/data")  # type: ignore[arg-type]


def test_the_sandbox_keeps_only_named_variables() -> None:
    ours = {
        "PATH": "/bin",
        "LC_TIME": "C",
        "HOME": "/home/me",
        "API_KEY": "k",
        "SSH_AUTH_SOCK": "s",
        "HTTPS_PROXY": "p",
    }
    assert filter_environment(ours) == {"PATH": "/bin", "LC_TIME": "C"}
    assert filter_environment(ours, ["API_KEY", "MISSING"]) == {"PATH": "/bin", "LC_TIME": "C", "API_KEY": "k"}


def test_limits_have_the_names_of_the_system_and_none_means_no_limit() -> None:
    table = dict(Limits(memory=1 << 30, processes=None).rlimits())
    assert table["RLIMIT_AS"] == 1 << 30
    assert table["RLIMIT_CORE"] == 0
    assert "RLIMIT_NPROC" not in table
    assert "RLIMIT_CPU" not in table


@pytest.mark.parametrize(
    ("folder", "path", "inside"),
    [("/a", "/a", True), ("/a", "/a/b", True), ("/a", "/ab", False), ("/", "/a", True), ("/a/b", "/a", False)],
)
def test_a_folder_contains_the_paths_below_it(folder: str, path: str, inside: bool) -> None:
    assert contains_path(folder, path) is inside


@pytest.mark.parametrize("abi", range(1, 9))
def test_each_landlock_version_gets_only_the_flags_that_it_supports(abi: int) -> None:
    files, tcp, scopes = landlock.handled_rights(abi)
    assert bool(files & landlock.REFER) is (abi >= 2)
    assert bool(files & landlock.TRUNCATE) is (abi >= 3)
    assert bool(tcp) is (abi >= 4)
    assert bool(files & landlock.IOCTL_DEV) is (abi >= 5)
    assert bool(scopes) is (abi >= 6)
    assert len(landlock.pack_ruleset(abi, True)) == 8 * (1 + (abi >= 4) + (abi >= 6))


def test_tcp_is_not_restricted_if_all_ports_are_allowed() -> None:
    assert struct.unpack("=3Q", landlock.pack_ruleset(6, False))[1] == 0
    assert struct.unpack("=3Q", landlock.pack_ruleset(6, True))[1] == landlock.BIND_TCP | landlock.CONNECT_TCP


def test_device_files_cannot_be_created_in_a_writable_folder() -> None:
    assert not landlock.WRITE & (landlock.MAKE_CHAR | landlock.MAKE_BLOCK | landlock.IOCTL_DEV)
    assert not landlock.READ & landlock.WRITE_FILE


@pytest.mark.parametrize(
    ("net", "abi", "bwrap", "mechanism"),
    [
        ("443", 6, None, "landlock"),
        ("443", 4, BWRAP, "landlock"),
        ("all", 3, None, "landlock"),
        ("none", 3, None, "landlock"),
        ("none", 2, BWRAP, "bubblewrap"),
        ("all", 0, BWRAP, "bubblewrap"),
        ("unix", 1, BWRAP, "bubblewrap"),
    ],
)
def test_landlock_is_used_if_it_can_do_what_is_asked_otherwise_bubblewrap(
    net: str, abi: int, bwrap: str | None, mechanism: str
) -> None:
    planned = plan_sandbox(Sandbox(net=net), ["/srv"], machine(abi, bwrap))
    assert planned.mechanism == mechanism
    assert planned.bubblewrap == (BWRAP if mechanism == "bubblewrap" else None)


@pytest.mark.parametrize(
    ("net", "abi", "bwrap", "words"),
    [
        ("none", 0, None, ["no Landlock", "Linux 5.13", "not installed", "install it"]),
        ("none", 2, None, ["truncation", "Linux 6.2", "install it"]),
        ("443", 3, BWRAP, ["Linux 6.7", "--sandbox-net all"]),
        ("443", 0, BWRAP, ["no Landlock", "bubblewrap cannot limit TCP to ports"]),
    ],
)
def test_if_neither_is_available_one_line_says_what_is_missing_and_what_to_do(
    net: str, abi: int, bwrap: str | None, words: list[str]
) -> None:
    with pytest.raises(SandboxUnavailable) as raised:
        plan_sandbox(Sandbox(net=net), ["/srv"], machine(abi, bwrap))
    text = str(raised.value)
    assert "\n" not in text
    assert [word for word in words if word not in text] == []


def test_a_named_mechanism_is_not_replaced_by_the_other() -> None:
    assert (
        plan_sandbox(Sandbox(mechanism="bubblewrap", net="none"), ["/srv"], machine(6, BWRAP)).mechanism == "bubblewrap"
    )
    with pytest.raises(SandboxUnavailable, match="no Landlock"):
        plan_sandbox(Sandbox(mechanism="landlock", net="none"), ["/srv"], machine(0, BWRAP))


def test_on_an_unknown_processor_the_sandbox_does_not_claim_to_limit_sockets() -> None:
    unknown = machine()._replace(processor=None)
    with pytest.raises(SandboxUnavailable, match="processor"):
        plan_sandbox(Sandbox(net="none"), ["/srv"], unknown)
    assert plan_sandbox(Sandbox(net="all,unix"), ["/srv"], unknown).seccomp_filter is None


def test_a_folder_that_contains_the_users_policy_is_not_writable(tmp_path: Path) -> None:
    sandbox = protect_user_files(Sandbox(net="none"), {"HOME": str(tmp_path)})
    assert sandbox is not None
    inner = tmp_path / ".config" / "dragoman" / "sub"
    for folder in (tmp_path, tmp_path / ".config", inner, tmp_path / ".local" / "state"):
        for there in (machine(6), machine(6, BWRAP), machine(0, BWRAP)):
            with pytest.raises(SandboxUnavailable, match="Dragoman's own; work in"):
                plan_sandbox(sandbox, [str(folder)], there)
    assert plan_sandbox(sandbox, [str(tmp_path / "project")], machine(6)).write_paths == (str(tmp_path / "project"),)


def test_a_sandbox_is_made_for_the_checked_folder_and_not_for_the_target_of_a_new_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for folder in (tmp_path / "link", tmp_path / "link" / "deep"):
        with pytest.raises(SandboxUnavailable, match="is a link or inside one"):
            plan_sandbox(Sandbox(), [str(folder)], machine(6))
    named = Sandbox(write=(str(tmp_path / "link"),))  # the user's own
    assert plan_sandbox(named, [], machine(6)).write_paths == (str(tmp_path / "real"),)


def test_the_target_of_a_policy_link_is_not_writable(tmp_path: Path) -> None:
    config, dotfiles = tmp_path / ".config" / "dragoman", tmp_path / "dotfiles"
    config.mkdir(parents=True)
    dotfiles.mkdir()
    (dotfiles / "policy.toml").write_text("version = 1\n")
    (config / "policy.toml").symlink_to(dotfiles / "policy.toml")
    sandbox = protect_user_files(Sandbox(net="none"), {"HOME": str(tmp_path)})
    assert sandbox is not None
    with pytest.raises(SandboxUnavailable, match=r"dotfiles/policy\.toml"):
        plan_sandbox(sandbox, [str(dotfiles)], machine(6))


def wrapped(**changed: Any) -> list[str]:
    """The arguments of an ordinary sandbox, with changes."""
    given: dict[str, Any] = {
        "system": ["/usr", "/bin"],
        "read": ["/data"],
        "write": ["/srv"],
        "environ": {"A": "b c"},
        "cwd": "/srv",
        "links": {"/bin": "usr/bin"},
        "has_network": False,
        "is_root": False,
    }
    return bubblewrap.build_arguments(**{**given, **changed})


def test_bubblewrap_mounts_granted_paths_and_writable_paths_last() -> None:
    line = " ".join(wrapped())
    parts = ["--symlink usr/bin /bin", "--ro-bind-try /data /data", "--bind /srv /srv"]
    places = [line.index(part) for part in parts]
    assert places == sorted(places)
    assert "--chdir /srv" in line
    assert "--die-with-parent" in line


def test_bubblewrap_gets_the_environment_only_for_the_command() -> None:
    words = wrapped()
    at = words.index("--setenv")
    assert words[at : at + 3] == ["--setenv", "A", "b c"]
    assert words.index("--clearenv") < at


def test_bubblewrap_disables_the_network_if_none_is_allowed() -> None:
    assert "--unshare-net" in wrapped()
    assert "--unshare-net" not in wrapped(has_network=True)


@pytest.mark.parametrize("is_root", [True, False])
def test_bubblewrap_makes_the_kernel_settings_read_only(is_root: bool) -> None:
    line = " ".join(wrapped(is_root=is_root))
    assert "--proc /proc --remount-ro /proc" in line


def test_root_keeps_only_its_file_capabilities() -> None:
    words = wrapped(is_root=True)
    assert words.index("--cap-drop") < words.index("--cap-add")
    added = [words[at + 1] for at, word in enumerate(words) if word == "--cap-add"]
    assert "CAP_SYS_ADMIN" not in added
    assert "CAP_SYS_RESOURCE" not in added
    assert "--cap-add" not in wrapped()


X86 = seccomp.SYSCALLS_BY_MACHINE["x86_64"]
CLOEXEC = 0o2000000


@pytest.mark.parametrize(
    ("family", "kind", "protocol", "ports", "everything", "nothing"),
    [
        (2, 1, 0, ALLOWED, ALLOWED, errno.EACCES),
        (2, 1 | CLOEXEC, 6, ALLOWED, ALLOWED, errno.EACCES),
        (10, 1, 6, ALLOWED, ALLOWED, errno.EACCES),
        (10, 2, 17, ALLOWED, ALLOWED, errno.EACCES),
        (2, 1, 262, errno.EPROTONOSUPPORT, ALLOWED, errno.EACCES),  # Multipath TCP
        (2, 1, 132, errno.EPROTONOSUPPORT, ALLOWED, errno.EACCES),  # SCTP
        (2, 3, 255, errno.EACCES, ALLOWED, errno.EACCES),  # raw
        (2, 5, 132, errno.EACCES, ALLOWED, errno.EACCES),
        (1, 1, 0, errno.EACCES, errno.EACCES, errno.EACCES),
        (40, 1, 0, errno.EACCES, errno.EACCES, errno.EACCES),  # to the host of a virtual machine
        (17, 3, 768, errno.EACCES, errno.EACCES, errno.EACCES),  # packets
        (16, 3, 0, ALLOWED, ALLOWED, ALLOWED),  # asking for interfaces
    ],
)
def test_only_sockets_that_can_be_limited_are_allowed(
    family: int, kind: int, protocol: int, ports: int, everything: int, nothing: int
) -> None:
    for name, calls in seccomp.SYSCALLS_BY_MACHINE.items():
        for inet, tcp_limited, wanted in ((True, True, ports), (True, False, everything), (False, True, nothing)):
            program = seccomp.build_filter(name, inet=inet, is_tcp_limited=tcp_limited, unix=False)
            assert verdict(program, calls.audit_arch, calls.socket, family, kind, protocol) == wanted


def test_unix_sockets_are_allowed_if_requested() -> None:
    program = seccomp.build_filter("x86_64", inet=False, is_tcp_limited=True, unix=True)
    assert verdict(program, X86.audit_arch, X86.socket, 1, 1, 0) == ALLOWED
    assert verdict(program, X86.audit_arch, X86.socket, 2, 1, 0) == errno.EACCES


def test_calls_that_bypass_the_sandbox_are_refused() -> None:
    program = seccomp.build_filter("x86_64", inet=True, is_tcp_limited=True, unix=False)
    fast_open = 0x20000000
    assert [verdict(program, X86.audit_arch, number) for number in X86.denied] == [errno.ENOSYS] * 4
    assert [verdict(program, X86.audit_arch, 44, 3, 0, 1, flags) for flags in (0, fast_open)] == [ALLOWED, errno.EACCES]
    assert verdict(program, X86.audit_arch, 46, 3, 0, fast_open | 0x4000) == errno.EACCES
    assert verdict(program, X86.audit_arch, 307, 3, 0, 1, fast_open) == errno.EACCES
    assert (
        verdict(program, X86.audit_arch, 0x40000000 | 41, 1, 1, 0) == errno.ENOSYS
    )  # the second set of numbers of the processor
    assert verdict(program, 0x40000003, 102) == errno.ENOSYS  # a 32-bit program
    assert verdict(program, X86.audit_arch, 59) == ALLOWED  # execve


def test_a_program_adds_its_virtual_environment_and_its_interpreter(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    (venv / "bin" / "python").symlink_to("/usr/bin/env")
    (venv / "bin" / "agent").write_text(f"#!{venv}/bin/python -I\n")
    link = tmp_path / "agent"
    link.symlink_to(venv / "bin" / "agent")
    needed = system_paths.required_paths(str(link), [])
    assert {str(link), str(venv), str(venv / "bin" / "agent"), str(venv / "bin" / "python")} <= set(needed)


def test_a_node_package_adds_the_packages_next_to_it(tmp_path: Path) -> None:
    tool = tmp_path / "node_modules" / "tool" / "node_modules" / "inner" / "cli.js"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/usr/bin/env node\n")
    assert str(tmp_path / "node_modules") in system_paths.required_paths(str(tool), [])


def test_a_program_adds_neither_the_whole_system_nor_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text("")
    mine = tmp_path / "bin" / "mine"
    mine.write_text("#!/bin/sh\n")
    for program in ("/bin/sh", "/usr/bin/env", str(mine)):
        needed = system_paths.required_paths(program, [])
        assert not [path for path in needed if contains_path(path, str(tmp_path))]
        assert "/" not in needed


@pytest.mark.timeout(60)
def test_an_interpreter_that_is_a_pipe_does_not_block(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = tmp_path / "script"
    script.write_text(f"#!{pipe}\n")
    assert {str(script), str(pipe)} <= set(system_paths.required_paths(str(script), []))
    assert str(pipe) in system_paths.required_paths(str(pipe), [])


def test_files_in_a_command_are_readable_but_folders_are_not(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text("")
    assert str(script) in system_paths.required_paths("/bin/sh", [str(script), str(tmp_path)])
    assert str(tmp_path) not in system_paths.required_paths("/bin/sh", [str(script), str(tmp_path)])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read what is not for everybody")
def test_root_reads_only_the_settings_that_everybody_can_read() -> None:
    readable = system_paths.readable_etc_paths()
    assert "/etc" not in readable
    assert not [path for path in readable if not os.path.islink(path) and not os.stat(path).st_mode & 0o004]
    assert not [path for path in readable if contains_path(path, "/etc/shadow")]
    assert any(contains_path(path, "/etc/passwd") for path in readable)
