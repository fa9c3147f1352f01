"""Redact secrets from text before it is stored or shown: known values, and the formats of common keys.

Known values come from the environment, MCP servers and credentials. They are also found in base64, percent and JSON
encoding. Pure.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

REDACTED = "[redacted]"

# Shorter values are ordinary words and numbers; redacting them would make text unreadable and protect nothing.
MIN_SECRET_LENGTH = 8

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!OR(?!IZ))|COOKIE|PRIVATE|DSN", re.I)
# Names that look like secrets but are paths or switches.
_NOT_SECRET = frozenset({"SSH_AUTH_SOCK", "KEYBOARD", "KEYMAP", "XKB_DEFAULT_KEYMAP"})

# An argument that assigns a value; a whole script (`sh -c "A=b agent"`) is not one.
_ASSIGNMENT = re.compile(r"-{0,2}[\w-]+=\S*")

# Formats of common keys; if there is a group, only the group is redacted.
_SHAPES = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}",
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z0-9]{20,}",
    # The header of a JWT is short; without this bound, input with many starts and no dot would take quadratic time.
    r"\beyJ[A-Za-z0-9_-]{8,4000}+\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"(?i:\b(?:bearer|basic|token)\s+)([A-Za-z0-9+/=._~-]{8,})",
    r"(?<=://)[^/\s:@]*:([^/\s@]+)(?=@)",
    r"(?i:(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|pwd)[\"']?\s*[=:]\s*[\"']?)([^\s\"'&,;]{4,})",
    r"(?i:--(?:password|token|api-key|secret)\s+)([^\s]{4,})",
)
_SHAPE = re.compile("|".join(f"(?:{shape})" for shape in _SHAPES), re.S)


def is_secret_name(name: str) -> bool:
    """Return whether a variable, header or member of this name holds a secret."""
    return name.upper() not in _NOT_SECRET and _SECRET_NAME.search(name) is not None


def environment_secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables with secret names."""
    return [value for name, value in environ.items() if is_secret_name(name)]


def mcp_server_secrets(servers: Iterable[Any]) -> list[str]:
    """Return all env and header values of MCP servers, and the part after Bearer in them."""
    return with_bearer_values(
        pair.value for server in servers for pair in [*(server.env or ()), *(server.headers or ())]
    )


def with_bearer_values(values: Iterable[str]) -> list[str]:
    """Return header values, and the part after Bearer and similar prefixes in them."""
    given = list(values)
    return given + [value.partition(" ")[2] for value in given if " " in value]


def command_secrets(argv: Iterable[str]) -> list[str]:
    """Return the secrets that a command line names: NAME=value, --name=value and --name value."""
    return [secret for _, secret in _split_arguments(argv) if secret]


def _split_arguments(argv: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Split each argument into the part to show and the secret, which is mostly empty."""
    is_named = False
    for word in argv:
        name, sign, value = word.partition("=")
        bare = name.lstrip("-")
        if is_named and not word.startswith("-"):
            yield "", word
        elif _ASSIGNMENT.fullmatch(word) and is_secret_name(bare):
            yield name + sign, value
        else:
            yield word, ""
        is_named = not sign and name.startswith("--") and not bare.startswith("no-") and is_secret_name(bare)


class Redactor:
    """Redacts known values and known formats."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._known_pattern: re.Pattern[str] | None = None
        self.add_values(values)

    def add_values(self, values: Iterable[str]) -> None:
        """Add known values."""
        for value in values:
            if len(value.strip()) >= MIN_SECRET_LENGTH:
                self._values.update(_encodings(value.strip()))
        if self._values:
            longest_first = sorted(self._values, key=len, reverse=True)
            self._known_pattern = re.compile("|".join(map(re.escape, longest_first)))

    def redact_known(self, text: str) -> str:
        """Redact known values only; code often contains text that only looks like a key."""
        return text if self._known_pattern is None else self._known_pattern.sub(REDACTED, text)

    def redact_text(self, text: str) -> str:
        """Redact known values and known formats."""
        return _SHAPE.sub(_redact_match, self.redact_known(text))

    def redact_command(self, argv: Iterable[str]) -> list[str]:
        """Redact a command line; a value under a secret name is redacted however short it is."""
        return [f"{shown}{REDACTED}" if secret else self.redact_text(shown) for shown, secret in _split_arguments(argv)]

    def redact_json(self, value: Any) -> Any:
        """Redact JSON: strings, keys, and values under secret names."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, Mapping):
            return {
                self.redact_text(str(name)): self._redact_member(str(name), member) for name, member in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.redact_json(item) for item in value]
        return value

    def _redact_member(self, name: str, value: Any) -> Any:
        return REDACTED if isinstance(value, str) and value and is_secret_name(name) else self.redact_json(value)


def _redact_match(found: re.Match[str]) -> str:
    for group in range(1, (found.lastindex or 0) + 1):
        if found[group] is not None:
            start, end = found.start(group) - found.start(), found.end(group) - found.start()
            return found[0] if found[group] == REDACTED else f"{found[0][:start]}{REDACTED}{found[0][end:]}"
    return REDACTED


def _encodings(value: str) -> Iterable[str]:
    """Return a value in the encodings it may appear in; base64 of a longer text that starts with it differs only at the
    end.
    """
    yield value
    yield quote(value, safe="")
    yield value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    coded = b64encode(value.encode("utf-8", "surrogatepass")).decode()
    yield coded
    yield coded.rstrip("=")
    yield coded.replace("+", "-").replace("/", "_").rstrip("=")
