"""Who vouches for a package beyond its hash: the signature of the npm registry, the publisher that PyPI attests.

A signature is checked here. PyPI checks the attestations of a publisher at the upload; here they are only named.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Mapping
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
        return UNKNOWN, "signatures need the package cryptography; install it with: pip install cryptography"
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


def pypi_publisher(body: bytes, file: str, page: str, http: Http) -> tuple[str, str]:
    """Return whether PyPI attests a publisher of a file, from the page of its project, and who that is."""
    address = _provenance_address(body, file)
    if not address:
        return NOT_OFFERED, "PyPI offers no provenance"
    address = urljoin(page, address)
    document = _json(http.get(address, limit=MAX_DOCUMENT).body, address)
    bundles = document.get("attestation_bundles") if isinstance(document, dict) else None
    publishers = [bundle.get("publisher") for bundle in bundles or () if isinstance(bundle, dict)]
    named = [
        f"{each.get('kind')} {each.get('repository') or each.get('email') or ''}".strip()
        for each in publishers
        if isinstance(each, dict)
    ]
    return (SIGNED, f"published by {named[0]}, as PyPI attests") if named else (UNKNOWN, "its provenance is empty")


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
