"""The files of the web page: read once, with their types, their gzip forms and the headers that bound the page.

All files are below one path that contains a digest of them, so browsers keep them until they change.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

# Where the files are, below the address of the page.
ASSET_PATH = "/web/"

FOLDER = Path(__file__).parent / "assets"

# The page loads only its own files and runs only its own scripts. Nothing from a peer can add a script, a style, a
# frame or a request to elsewhere: strings cannot become HTML at all (trusted types). `blob:` shows images of a session.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dragoman",
    )
)

PAGE_HEADERS: Mapping[str, str] = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "referrer-policy": "no-referrer",  # the address may contain the token of a link
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-cache",
}

# For files whose path has the digest.
_FOREVER = "public, max-age=31536000, immutable"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}

# Files with their own path: a service worker controls what is below its address.
_ROOT_FILES = {"/sw.js": "sw.js", "/manifest.webmanifest": "manifest.webmanifest"}


class Asset(Struct, frozen=True):
    """One file, as it is sent."""

    body: bytes
    packed: bytes  # by gzip; empty if that saves nothing
    headers: Mapping[str, str]

    def response(self, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
        """Return body and headers for a client that accepts these encodings."""
        is_packed = bool(self.packed) and "gzip" in accept_encoding
        body = self.packed if is_packed else self.body
        headers = {**self.headers, "content-length": str(len(body)), "vary": "accept-encoding"}
        return body, headers | ({"content-encoding": "gzip"} if is_packed else {})


def find_asset(path: str) -> Asset | None:
    """Return the file at a path below the address of the page; None if there is none."""
    return _assets().get(path)


def page() -> Asset:
    """Return the page itself."""
    return _assets()["/"]


@cache
def _assets() -> dict[str, Asset]:
    files = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in sorted(FOLDER.rglob("*.*"))}
    digest = sha256()
    for name, body in files.items():
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
    version = digest.hexdigest()[:12]
    scripts = [name for name in files if name.endswith(".js") and name != "sw.js"]
    preloads = "\n".join(f'<link rel="modulepreload" href="web/{version}/{name}">' for name in scripts)

    def fill(body: bytes) -> bytes:
        return body.replace(b"{version}", version.encode()).replace(b"{preloads}", preloads.encode())

    found = {
        f"{ASSET_PATH}{version}/{name}": _asset(name, body, {"cache-control": _FOREVER})
        for name, body in files.items()
        if name not in ("index.html", *_ROOT_FILES.values())
    }
    for path, name in _ROOT_FILES.items():
        found[path] = _asset(name, fill(files[name]), {"cache-control": "no-cache"})
    found["/"] = _asset("index.html", fill(files["index.html"]), PAGE_HEADERS)
    return found


def _asset(name: str, body: bytes, headers: Mapping[str, str]) -> Asset:
    packed = gzip.compress(body, 9, mtime=0)
    type = _TYPES[Path(name).suffix]
    return Asset(body, packed if len(packed) < len(body) else b"", {"content-type": type, **headers})
