"""The proxy `redact`: replaces secrets in messages of both directions, also where a stream cuts them in two.

Secrets are the values of variables with secret names, the values that MCP servers of the session get, and what looks
like a common key. Credentials on their way to where they belong are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from msgspec import Raw

from dragoman.engine.codec import json_values
from dragoman.errors import Kind, ProtocolError
from dragoman.policy.redaction import MIN_SECRET_LENGTH, REDACTED, Redactor, environment_secrets, with_bearer_values
from dragoman.roles.proxy.built_in.option import ProxyOption
from dragoman.roles.proxy.functions import Passing, ProxyFunctions
from dragoman.schema.base import encode
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

OPTIONS = (
    ProxyOption("--env", str, "a variable whose value is a secret, besides those with secret names", repeated=True),
)

_CREDENTIAL_METHODS = frozenset(row.name for row in METHODS.values() if row.has_credentials)

# The member of params for the agent whose values are credentials for somebody else, who needs them.
_FOR_OTHERS = "mcpServers"

# How the keys of common services begin.
_KEY_STARTS = (
    *(f"{kind}-" for kind in ("sk", "rk", "pk")), *(f"gh{kind}_" for kind in "pousr"), "github_pat_", "glpat-",
    "xox", "AKIA", "ASIA", "AIza", "npm_", "pypi-", "hf_", "eyJ",
)  # fmt: skip
_KEY_AT_END = re.compile(rf"\b(?:{'|'.join(map(re.escape, _KEY_STARTS))})\S*$")
_LAST_WORD = re.compile(r"[\w-]*$")

# What stands before a secret of any form, with the beginning of that: Bearer, a password in an address, an assignment,
# an option (policy/redaction.py).
_NAME_STARTS = ("bearer", "basic", "token", "secret", "password", "passwd", "pwd", "apikey", "api_key", "api-key",
                "access_key", "access-key", "accesskey", "--password", "--token", "--api-key", "--secret")  # fmt: skip
_NAMED_AT_END = re.compile(
    r"(?:\b(?:bearer|basic|token)\s+[A-Za-z0-9+/=._~-]*"
    r"|:(?:/(?:/[^/\s@]*)?)?"
    r"|(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|pwd)[\"']?\s*(?:[=:]\s*[\"']?[^\s\"'&,;]*)?"
    r"|--(?:password|token|api-key|secret)\s+\S*)\Z",
    re.I,
)

# How a private key begins, and how it ends.
_BLOCK_START, _BLOCK_END = "-----BEGIN ", re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
_BLOCK_AT_END = re.compile(r"-----BEGIN (?:[A-Z ]{0,40}|[A-Z ]{0,40}PRIVATE KEY-{1,5}.*)\Z", re.S)
_DASHES_AT_END = re.compile(r"(?<!-)(?:-----(?:B(?:E(?:G(?:I(?:N)?)?)?)?)?|(?<!KEY)-{1,4})\Z")

# Text that is held back until it is known whether a secret begins in it is not longer than this: a private key of 8192
# bits has 6400 characters.
MAX_HELD = 8192


def make(env: Sequence[str] = ()) -> RedactProxy:
    """Return the proxy. Raise ValueError if a named variable is not set, because nothing would be redacted."""
    for name in env:
        if not os.environ.get(name):
            raise ValueError(f"the proxy redact cannot find the variable {name}; set it, or leave out --env {name}")
    return RedactProxy([*environment_secrets(os.environ), *(os.environ[name] for name in env)])


class RedactProxy:
    """Redacts what passes."""

    name = "redact"

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = list(secrets)

    def extend(self, functions: ProxyFunctions) -> Callable[[], Awaitable[None]]:
        """Redact everything that passes one chain."""
        redaction = _Redaction(self._secrets, functions)
        functions.rewrites.append(redaction.rewrite)
        return redaction.close


class _Redaction:
    """The secrets of one chain, and the text that is held back."""

    def __init__(self, secrets: Iterable[str], functions: ProxyFunctions) -> None:
        self._functions = functions
        self._redactor = Redactor()
        self._known: set[str] = set()
        self._held: dict[tuple[str, str], str] = {}  # by session and kind of chunk
        self._learn(secrets)

    async def close(self) -> None:
        """Forget the secrets."""
        self._known.clear()

    def rewrite(self, passing: Passing) -> bytes | None:
        """Return the message without secrets, or None if it has none."""
        if passing.method in _CREDENTIAL_METHODS:
            return None
        if passing.receiver is Side.CLIENT:
            if passing.method == "session/update":
                return self._rewrite_update(passing)
            self._flush_sessions(passing)
        if passing.receiver is Side.AGENT and b'"mcpServers"' in bytes(passing.raw):
            self._learn(_server_secrets(json_values(passing.raw)))
        is_write = passing.kind == "request" and passing.method == "fs/write_text_file"
        if is_write and REDACTED.encode() in bytes(passing.raw):
            raise ProtocolError(
                Kind.ACCESS_DENIED,
                f"the text has {REDACTED} in place of a secret and would overwrite it; change the file by other means",
            )
        return self._redact(passing.raw, keeps_servers=passing.receiver is Side.AGENT)

    def _learn(self, secrets: Iterable[str]) -> None:
        found = [value.strip() for value in secrets if len(value.strip()) >= MIN_SECRET_LENGTH]
        self._known.update(found)
        self._redactor.add_values(found)

    def _redact(self, raw: Any, *, keeps_servers: bool = False) -> bytes | None:
        if self._is_clean(raw):
            return None
        values = json_values(raw)
        clean = self._clean(values)
        if keeps_servers and isinstance(values, dict) and _FOR_OTHERS in values:
            clean[_FOR_OTHERS] = values[_FOR_OTHERS]
        # Also if nothing changed: a member may be there twice, and the other one have the secret.
        return bytes(encode(clean))

    def _is_clean(self, raw: Any) -> bool:
        """Whether JSON has no secret, as far as its text tells."""
        text = bytes(raw).decode("utf-8", "surrogatepass")
        return "\\" not in text and self._redactor.redact_text(text) == text

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redactor.redact_text(value)
        if isinstance(value, list):
            return [self._clean(item) for item in value]
        if isinstance(value, dict):
            return {self._redactor.redact_text(name): self._clean(item) for name, item in value.items()}
        return value

    # --- streams ----------------------------------------------------------------------------------------------

    def _rewrite_update(self, passing: Passing) -> bytes | None:
        values = json_values(passing.raw)
        stream = _stream_of(values)
        if stream is None:  # what is held waits for its own stream: the other half may come after this
            return self._redact(passing.raw)
        content = values["update"]["content"]
        before = content["text"]
        text = self._held.pop(stream, "") + before
        kept = self._possible_start(text)
        if kept:
            self._held[stream] = text[len(text) - kept :]
            text = text[: len(text) - kept]
        text = self._redactor.redact_text(text)
        if text == before and self._is_clean(passing.raw):
            return None
        content["text"] = text
        return bytes(encode(self._clean(values)))

    def _possible_start(self, text: str) -> int:
        """Return how much of the end may be the beginning of a secret."""
        end = text[-MAX_HELD:]
        found = _KEY_AT_END.search(end) or (None if end.endswith("KEY-----") else _DASHES_AT_END.search(end))
        starts = [match.start() for match in (found, _NAMED_AT_END.search(end)) if match]
        length = len(end) - min(starts) if starts else 0
        last_block = end.rfind(_BLOCK_START)
        if last_block >= 0 and _BLOCK_AT_END.match(end, last_block) and not _BLOCK_END.search(end, last_block):
            length = max(length, len(end) - last_block)
        last = _LAST_WORD.search(end)
        if last and last[0] and _may_begin_secret(last[0]):
            length = max(length, len(last[0]))
        for secret in self._known:
            for size in range(min(len(secret) - 1, len(text)), length, -1):
                if text.endswith(secret[:size]):
                    length = size
                    break
        return length if length < MAX_HELD else 0

    def _flush_sessions(self, passing: Passing) -> None:
        """Send what is held of the sessions that a message names: it comes after the text before it.

        What other sessions hold waits for its other half.
        """
        if self._held:
            named = {_session_of(raw) for raw in (passing.raw, passing.request) if raw is not None}
            for stream in [each for each in self._held if each[0] in named]:
                self._flush(stream)

    def _flush(self, stream: tuple[str, str]) -> None:
        """Send text that was held back: nothing follows it."""
        session, kind = stream
        text = self._redactor.redact_text(self._held.pop(stream))
        update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        self._functions.notify(Side.CLIENT, "session/update", {"sessionId": session, "update": update})


def _may_begin_secret(word: str) -> bool:
    """Whether a word that may go on is the beginning of a key, or of a name that stands before a secret."""
    lower = word.lower()
    return any(start.startswith(word) for start in _KEY_STARTS) or any(
        start.startswith(lower) for start in _NAME_STARTS
    )


def _stream_of(values: Any) -> tuple[str, str] | None:
    """Return the session and kind of a text chunk; None for any other update."""
    try:
        update = values["update"]
        if update["content"]["type"] == "text" and isinstance(update["content"]["text"], str):
            return str(values["sessionId"]), str(update["sessionUpdate"])
    except (KeyError, TypeError):
        pass
    return None


def _session_of(raw: Raw) -> str | None:
    """Return the session that params or a result name; None if they name none."""
    values = json_values(raw)
    return str(values["sessionId"]) if isinstance(values, dict) and "sessionId" in values else None


def _server_secrets(values: Any) -> list[str]:
    """Return the env and header values of MCP servers, in any form in which params have them."""
    found: list[str] = []
    servers = values.get("mcpServers") if isinstance(values, dict) else None
    for server in servers if isinstance(servers, list) else ():
        for member in ("env", "headers"):
            pairs = server.get(member) if isinstance(server, dict) else None
            if isinstance(pairs, dict):
                found += [value for value in pairs.values() if isinstance(value, str)]
            for pair in pairs if isinstance(pairs, list) else ():
                if isinstance(pair, dict) and isinstance(pair.get("value"), str):
                    found.append(pair["value"])
    return with_bearer_values(found)
