"""Secrets taken out of text before it is kept or shown: values that are known, and shapes that keys have.

Takes the values (from the environment, from MCP servers, from credentials) and gives text without them, also where they
stand in base64, percent or JSON spelling. What is put in their place is always the same. Pure.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

REDACTED = "[redacted]"

# Shorter values are words and numbers; taking those out would make the rest unreadable and hide nothing.
MIN_SECRET_LENGTH = 8

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!OR(?!IZ))|COOKIE|PRIVATE|DSN", re.I)
# Names that look like secrets and are places or switches.
_NOT_SECRET = frozenset({"SSH_AUTH_SOCK", "KEYBOARD", "KEYMAP", "XKB_DEFAULT_KEYMAP"})

# A word of a command line that gives something a value; a whole script (`sh -c "A=b agent"`) is none.
_ASSIGNMENT = re.compile(r"-{0,2}[\w-]+=\S*")

# Shapes of keys in circulation; where there is a group, only that is taken out.
_SHAPES = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}",
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z0-9]{20,}",
    # The head of such a token is short; without that bound, many beginnings and no dot would take time without end.
    r"\beyJ[A-Za-z0-9_-]{8,4000}+\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"(?i:\b(?:bearer|basic|token)\s+)([A-Za-z0-9+/=._~-]{8,})",
    r"(?<=://)[^/\s:@]*:([^/\s@]+)(?=@)",
    r"(?i:(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|pwd)[\"']?\s*[=:]\s*[\"']?)([^\s\"'&,;]{4,})",
    r"(?i:--(?:password|token|api-key|secret)\s+)([^\s]{4,})",
)
_SHAPE = re.compile("|".join(f"(?:{shape})" for shape in _SHAPES), re.S)


def is_secret_name(name: str) -> bool:
    """Whether a variable, header or member of this name holds something that nobody else should see."""
    return name.upper() not in _NOT_SECRET and _SECRET_NAME.search(name) is not None


def environment_secrets(environ: Mapping[str, str]) -> list[str]:
    """The secret values of an environment, by the names of its variables."""
    return [value for name, value in environ.items() if is_secret_name(name)]


def mcp_server_secrets(servers: Iterable[Any]) -> list[str]:
    """All values that MCP servers are given in env and headers, and what stands after Bearer in them."""
    return with_bearer_values(
        pair.value for server in servers for pair in [*(server.env or ()), *(server.headers or ())]
    )


def with_bearer_values(values: Iterable[str]) -> list[str]:
    """Values as headers have them, and what stands after Bearer and the like in them."""
    given = list(values)
    return given + [value.partition(" ")[2] for value in given if " " in value]


def command_secrets(argv: Iterable[str]) -> list[str]:
    """The secrets that a command line gives away by name: NAME=value, --name=value and --name value."""
    return [secret for _, secret in _split_arguments(argv) if secret]


def _split_arguments(argv: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each word of a command line in two: what may be shown, and the secret behind it, mostly none."""
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
    """Takes known values and known shapes out of text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._known_pattern: re.Pattern[str] | None = None
        self.add_values(values)

    def add_values(self, values: Iterable[str]) -> None:
        """Know more values from now on."""
        for value in values:
            if len(value.strip()) >= MIN_SECRET_LENGTH:
                self._values.update(_encodings(value.strip()))
        if self._values:
            longest_first = sorted(self._values, key=len, reverse=True)
            self._known_pattern = re.compile("|".join(map(re.escape, longest_first)))

    def redact_known(self, text: str) -> str:
        """The text without the values that are known; what only looks like a key is left, as code often does."""
        return text if self._known_pattern is None else self._known_pattern.sub(REDACTED, text)

    def redact_text(self, text: str) -> str:
        """The text without secrets."""
        return _SHAPE.sub(_redact_match, self.redact_known(text))

    def redact_command(self, argv: Iterable[str]) -> list[str]:
        """A command line without secrets; what it gives away by name is taken out of it however short it is."""
        return [f"{shown}{REDACTED}" if secret else self.redact_text(shown) for shown, secret in _split_arguments(argv)]

    def redact_json(self, value: Any) -> Any:
        """JSON without secrets, in texts, in keys, and under names that tell of one."""
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
    """A value as it may stand in other texts; base64 of a longer text that begins with it shares all but the end."""
    yield value
    yield quote(value, safe="")
    yield value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    coded = b64encode(value.encode("utf-8", "surrogatepass")).decode()
    yield coded
    yield coded.rstrip("=")
    yield coded.replace("+", "-").replace("/", "_").rstrip("=")
