"""`dragoman agents verify`: signatures of npm, and the attestations of PyPI."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dragoman.registry.fetch.http import Http
from dragoman.registry.install import npm
from dragoman.registry.install.signatures import pypi_attestation
from tests.registry.home import User, needs_npm, set_environment
from tests.registry.packages import entry, npm_package, pypi_package
from tests.registry.stand_in import serve

# What PyPI publishes about one file of the project pypi-attestations.
FILE = "pypi_attestations-0.0.19.tar.gz"
SHA256 = "9bb1add04b1b4e182be6b0b80931593f7a291eb49d69b4fd728a5d4cbcdc4bd3"
PROVENANCE = Path(__file__).parents[2] / "data" / "registry" / f"{FILE}.provenance.json"

KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[User]:
    with serve() as site:
        set_environment(tmp_path, site, monkeypatch)
        npm._read_config.cache_clear()
        yield User(tmp_path, site, capsys)
        npm._read_config.cache_clear()


def sign(user: User, text: str = "") -> None:
    """Sign the package as npm does, or another text; serve the key."""
    page = user.site.pages["/agent"]
    assert isinstance(page, bytes)
    packument = json.loads(page)
    dist = packument["versions"]["1.0.0"]["dist"]
    message = text or f"agent@1.0.0:{dist['integrity']}"
    signature = base64.b64encode(KEY.sign(message.encode(), ec.ECDSA(hashes.SHA256()))).decode()
    dist["signatures"] = [{"keyid": "SHA256:test", "sig": signature}]
    user.site.pages["/agent"] = json.dumps(packument).encode()
    public = KEY.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    keys = {"keys": [{"keyid": "SHA256:test", "key": base64.b64encode(public).decode(), "expires": None}]}
    user.site.pages["/-/npm/v1/keys"] = json.dumps(keys).encode()


def verify(user: User) -> tuple[int, dict[str, Any]]:
    """Verify everything with an empty cache of npm; return the exit code and the row."""
    if (user.folder / "npm").exists():
        (user.folder / "npm").rename(user.folder / f"npm-{len(list(user.folder.iterdir()))}")
    code = user.run("verify", "--json")
    (row,) = json.loads(user.out)
    return code, row


@needs_npm
@pytest.mark.item("RG-18")
def test_the_signature_of_npm_is_checked_where_it_is_offered(user: User) -> None:
    npm_package(user.site, "agent", "1.0.0")
    user.publish(entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}))
    assert user.install("agent") == 0, user.err
    assert verify(user)[1]["signature"] == "not offered"
    sign(user)
    code, row = verify(user)
    assert (code, row["signature"]) == (0, "ok"), row
    assert "signed by npm with SHA256:test" in row["notes"]
    sign(user, "agent@1.0.0:sha512-another")
    code, row = verify(user)
    assert (code, row["signature"]) == (1, "invalid"), row
    del user.site.pages["/-/npm/v1/keys"]
    code, row = verify(user)
    assert (code, row["signature"]) == (0, "unknown"), row


def offer(user: User, document: bytes) -> None:
    """Let PyPI offer this as the provenance of the agent."""
    page = user.site.pages["/simple/small-agent/"]
    assert isinstance(page, bytes)
    user.site.pages["/simple/small-agent/"] = page.replace(b"<a href", b'<a data-provenance="/provenance" href')
    user.site.pages["/provenance"] = document


@pytest.mark.item("RG-18")
def test_an_attestation_of_pypi_is_checked_and_never_called_good_unchecked(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    pypi_package(user.site, "small-agent", "0.3.0")
    user.publish(entry("agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}))
    assert user.install("agent") == 0, user.err
    assert verify(user)[1]["signature"] == "not offered"
    offer(user, PROVENANCE.read_bytes())
    pytest.importorskip("pypi_attestations")
    code, row = verify(user)
    assert (code, row["signature"]) == (1, "invalid"), row  # it is that of another file
    assert "subject does not match distribution" in row["notes"][-1]
    monkeypatch.setitem(sys.modules, "pypi_attestations", None)
    code, row = verify(user)
    assert (code, row["signature"]) == (0, "unknown"), row
    assert row["notes"][-1].startswith("PyPI says that GitHub trailofbits/pypi-attestations published it; to check")


def test_a_real_attestation_is_valid_for_its_file_alone() -> None:
    pytest.importorskip("pypi_attestations")
    page = f'<a data-provenance="/provenance" href="/x#sha256={SHA256}">{FILE}</a>'.encode()
    with serve() as site:
        site.pages["/provenance"] = PROVENANCE.read_bytes()
        address, http = f"{site.url}/simple/pypi-attestations/", Http(trusted_http=frozenset({site.url}))
        said = pypi_attestation(page, FILE, SHA256, address, http)
        assert said == ("ok", "attested by its publisher, GitHub trailofbits/pypi-attestations")
        assert pypi_attestation(page, FILE, "0" * 64, address, http)[0] == "invalid"
        site.pages["/provenance"] = PROVENANCE.read_bytes().replace(b'"release.yml"', b'"other.yml"')
        assert pypi_attestation(page, FILE, SHA256, address, http)[0] == "invalid"
        site.pages["/provenance"] = b'{"version": 1, "attestation_bundles": []}'
        assert pypi_attestation(page, FILE, SHA256, address, http)[0] == "unknown"
