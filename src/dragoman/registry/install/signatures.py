"""Who vouches for a package beyond its hash: the signature of the npm registry, the attestation of a publisher on PyPI.

npm's signature needs the package cryptography, attestations need pypi-attestations: its keys ship with it, and nothing
is fetched for them. Without them the state is unknown, and a publisher that PyPI names is told as unchecked.
"""

from __future__ import annotations

import base64
import binascii
import html
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin

import msgspec

from dragoman.registry.fault import RegistryFault
from dragoman.registry.fetch.http import Http

SIGNED, INVALID, NOT_OFFERED, UNKNOWN = "ok", "invalid", "not offered", "unknown"

# The list of keys, and the attestations of one file, in bytes.
MAX_DOCUMENT = 4 * 1024 * 1024

_PROVENANCE = re.compile(r'data-provenance="([^"]+)"')


def npm_signature(package: str, dist: Mapping[str, Any], integrity: str, registry: str, http: Http) -> tuple[str, str]:
    """Return whether a signature of npm fits what was installed (`integrity`, "" if that is not known), and a note."""
    offered = str(dist.get("integrity") or "")
    if integrity and offered and integrity != offered:
        return INVALID, f"npm now serves other bytes for {package} than were installed"
    signatures = [each for each in dist.get("signatures") or () if isinstance(each, dict)]
    if not signatures:
        return NOT_OFFERED, "npm offers no signature"
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        return UNKNOWN, "signatures need the package cryptography; install it with: pip install 'dragoman[attest]'"
    if not registry:
        return UNKNOWN, "npm does not say which registry it uses"
    keys = _npm_keys(registry, http)
    for signature in signatures:
        key = keys.get(str(signature.get("keyid")))
        if key is None:
            continue
        try:
            public = serialization.load_der_public_key(base64.b64decode(key))
            assert isinstance(public, ec.EllipticCurvePublicKey)
            message = f"{package}:{offered}".encode()
            public.verify(base64.b64decode(str(signature.get("sig"))), message, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, binascii.Error, ValueError, AssertionError):
            return INVALID, f"the signature of npm does not fit {package}"
        return SIGNED, f"signed by npm with {signature['keyid']}"
    return UNKNOWN, "npm does not list the key of the signature"


def _npm_keys(registry: str, http: Http) -> dict[str, str]:
    """Return the keys of the registry by their ids; raise RegistryFault."""
    address = f"{registry.rstrip('/')}/-/npm/v1/keys"
    document = _json(http.get(address, limit=MAX_DOCUMENT).body, address)
    keys = document.get("keys") if isinstance(document, dict) else None
    return {str(key.get("keyid")): str(key.get("key")) for key in keys or () if isinstance(key, dict)}


def pypi_attestation(body: bytes, file: str, sha256: str, page: str, http: Http) -> tuple[str, str]:
    """Return whether the attestations of a file are valid, from the page of its project, and who published it."""
    address = _provenance_address(body, file)
    if not address:
        return NOT_OFFERED, "PyPI offers no attestation"
    address = urljoin(page, address)
    document = http.get(address, limit=MAX_DOCUMENT).body or b""
    try:
        from pypi_attestations import AttestationError, Distribution, Provenance
    except ImportError:
        return UNKNOWN, f"{_named_publisher(document, address)}; to check that: pip install 'dragoman[attest]'"
    try:
        bundles = Provenance.model_validate_json(document).attestation_bundles
        distribution = Distribution(name=file, digest=sha256)
        with _quiet():
            for bundle in bundles:
                for attestation in bundle.attestations:
                    attestation.verify(bundle.publisher, distribution, offline=True)
    except (AttestationError, ValueError) as error:
        return INVALID, f"the attestation of {file} is not valid: {str(error).splitlines()[0]}"
    checked = [bundle.publisher for bundle in bundles if bundle.attestations]
    if not checked:
        return UNKNOWN, "its provenance has no attestation"
    return SIGNED, f"attested by its publisher, {_publisher_text(checked[0].model_dump())}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Check without the note that the keys are those that ship with it."""
    log = logging.getLogger("sigstore")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _named_publisher(document: bytes, address: str) -> str:
    """Return whom PyPI names as the publisher, unchecked."""
    known = _json(document, address)
    bundles = known.get("attestation_bundles") if isinstance(known, dict) else None
    publishers = [bundle.get("publisher") for bundle in bundles or () if isinstance(bundle, dict)]
    named = [_publisher_text(each) for each in publishers if isinstance(each, dict)]
    return f"PyPI says that {named[0]} published it" if named else "its provenance names nobody"


def _publisher_text(publisher: Mapping[str, Any]) -> str:
    who = publisher.get("repository") or publisher.get("email") or publisher.get("vcs_origin") or ""
    return f"{publisher.get('kind')} {who}".strip()


def _provenance_address(body: bytes, file: str) -> str:
    if body.lstrip().startswith(b"{"):
        document = _json(body, file)
        files = document.get("files") if isinstance(document, dict) else None
        found = [each.get("provenance") for each in files or () if each.get("filename") == file]
        return str(found[0] or "") if found else ""
    for line in body.decode("utf-8", "replace").splitlines():
        if file in line and (match := _PROVENANCE.search(line)) is not None:
            return html.unescape(match[1])
    return ""


def _json(body: bytes | None, address: str) -> Any:
    try:
        return msgspec.json.decode(body or b"")
    except msgspec.DecodeError as error:
        raise RegistryFault("network", f"{address}: {error}") from None
