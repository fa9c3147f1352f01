"""config.toml: what a host does, and hosts by name; tokens are in files that nobody else reads."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dragoman.config import config_file, host_tokens
from dragoman.config.host_section import HostSection, IssuerSection, NamedHost, name_fault, origin_fault
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault

WRITTEN = """\
version = 1
default_host = "office"

[host]
agents = ["one", "two"]
roots = ["~/src"]
user_roots = { ann = ["/srv/ann"] }
bind = "0.0.0.0:7437"
tls = ["cert.pem", "key.pem"]
share = "user"
unattended = "deny"
local = false

[host.limits]
body = 1000

[host.issuer]
issuer = "https://login.example.org"
audience = "dragoman"
role_claim = "groups"
roles = { devs = "editor" }

# the office
[hosts.office]
url = "https://office.example:7437"
token_file = "~/token"
"""


def test_the_host_is_read_with_all_settings() -> None:
    read = config_file.parse_config(WRITTEN, "config.toml")
    assert read.host == HostSection(
        agents=("one", "two"),
        roots=("~/src",),
        user_roots={"ann": ("/srv/ann",)},
        bind="0.0.0.0:7437",
        tls=("cert.pem", "key.pem"),
        share="user",
        unattended="deny",
        local=False,
        limits={"body": 1000},
        issuer=IssuerSection(
            issuer="https://login.example.org", audience="dragoman", role_claim="groups", roles={"devs": "editor"}
        ),
    )
    assert read.hosts["office"] == NamedHost(name="office", url="https://office.example:7437", token_file="~/token")
    assert read.default_host == "office"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("host = 1", "line 1: host: the host's settings are written as [host]"),
        ("[host]\nport = 1", "line 2: host.port: [host] has no such member; it has agents, roots, "),
        ("[host]\ntls = ['a']", "line 2: host.tls: must be a certificate and its key"),
        ("[host]\nshare = 'all'", "line 2: host.share: must be one of session, user"),
        ("[host]\norigins = ['https://a.example', 'nonsense']", "line 2: host.origins: 'nonsense' is no origin"),
        ("[host]\nnames = ['bad_name/x']", "line 2: host.names: 'bad_name/x' is no name of a machine"),
        ("[host.limits]\nbody = 0", "line 2: host.limits.body: must be a number above zero"),
        ("[host.issuer]\nissuer = 'https://x'", "line 1: host.issuer: audience is missing"),
        ("[hosts.a]\ntoken_file = 'x'", "line 1: hosts.a: url must say where it is"),
        ("[hosts.a]\nurl = 'office'", "line 2: hosts.a.url: must be an address"),
        ("[hosts.a]\nurl = 'http://x'\ntoken = 'x'", "line 3: hosts.a.token: a host has no such member"),
        (
            "[hosts]\nroots = ['~/projects']",
            "line 2: hosts.roots: roots is a setting of `dragoman serve`; write it",
        ),
        ("[hosts.limits]\nbody = 1", "line 1: hosts.limits: limits is a setting of `dragoman serve`; write it"),
        ("[hosts]\noffice = 'http://x'", "line 2: hosts.office: a host is written as a table: [hosts.office]"),
        ("default_host = 'x'", "line 1: default_host: there is no host 'x'; there are none"),
    ],
)
def test_errors_name_the_line_and_the_key(text: str, fault: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        config_file.parse_config(text, "config.toml")
    assert any(each.startswith(f"config.toml: {fault}") for each in caught.value.faults), caught.value.faults


@pytest.mark.parametrize(
    ("text", "is_origin", "is_name"),
    [
        ("https://tools.example.org", True, False),
        ("http://127.0.0.1:8080", True, False),
        ("http://[::1]:8080", True, False),
        ("vscode-webview://1a2b3c", True, False),
        ("https://tools.example.org/", False, False),
        ("https://Tools.example.org", False, False),
        ("https://me@tools.example.org", False, False),
        ("null", False, True),
        ("office.example", False, True),
        ("my_service", False, True),
        ("::1", False, True),
        ("office.example:7437", False, False),
        ("", False, False),
    ],
)
def test_only_usable_origins_and_names_are_accepted(text: str, is_origin: bool, is_name: bool) -> None:
    assert (not origin_fault(text), not name_fault(text)) == (is_origin, is_name)


def test_hosts_are_added_and_removed_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(WRITTEN)
    config_file.add_entry(str(path), NamedHost(name="home", url="http://127.0.0.1:7437", ca="/ca.pem"))
    config_file.set_default(str(path), "hosts", "home")
    read = config_file.load_config(str(path))
    assert list(read.hosts) == ["office", "home"]
    assert read.default_host == "home"
    config_file.remove_entry(str(path), "hosts", "home")
    read = config_file.load_config(str(path))
    assert (list(read.hosts), read.default_host) == (["office"], "")
    assert "# the office" in path.read_text()
    with pytest.raises(ConfigFault, match="already"):
        config_file.add_entry(str(path), NamedHost(name="office", url="http://x"))


def test_only_the_owner_can_read_a_stored_token_and_the_variable_overrides_it(tmp_path: Path) -> None:
    here = user_paths({"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")})
    path = host_tokens.save_token(here, "office", "dgm_x\n")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    host = NamedHost(name="office", url="https://x", token_file=path)
    assert host_tokens.read_token(host, {}) == "dgm_x"
    assert host_tokens.read_token(host, {"DRAGOMAN_TOKEN": "other"}) == "other"
    os.chmod(path, 0o644)
    with pytest.raises(ConfigFault, match="chmod 600"):
        host_tokens.read_token(host, {})
    os.unlink(path)
    with pytest.raises(ConfigFault, match="is not there"):
        host_tokens.read_token(host, {})
    assert host_tokens.read_token(NamedHost(name="", url="https://x"), {}) == ""
