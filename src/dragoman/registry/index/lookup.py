"""Find the entry that one word means. Pure."""

from __future__ import annotations

from dragoman.registry.fault import RegistryFault
from dragoman.registry.index import snapshot
from dragoman.registry.index.sources import Catalog, Found

# Names that people type, where the registry has another id.
ALIASES = {
    "amp": "amp-acp",
    "claude": "claude-acp",
    "claude-code": "claude-acp",
    "codex": "codex-acp",
    "copilot": "github-copilot-cli",
    "cortex": "cortex-code",
    "corust": "corust-agent",
    "droid": "factory-droid",
    "factory": "factory-droid",
    "gemini-cli": "gemini",
    "glm": "glm-acp-agent",
    "grok": "grok-build",
    "kimi-cli": "kimi",
    "minion": "minion-code",
    "pi": "pi-acp",
    "qwen": "qwen-code",
    "vibe": "mistral-vibe",
}


def find_by_word(catalog: Catalog, word: str) -> Found | None:
    """Return the entry that one word means: its id, or a usual name of it."""
    return catalog.find(word) or catalog.find(ALIASES.get(word, ""))


def require_entry(catalog: Catalog, word: str) -> Found:
    """Return the entry that a word means; raise RegistryFault with the nearest ids."""
    found = find_by_word(catalog, word)
    if found is not None:
        return found
    from difflib import get_close_matches

    ids = [each.entry.id for each in catalog.all()]
    near = [id for id in ids if word and id.startswith(word)] or get_close_matches(word, [*ids, *ALIASES], 3, 0.5)
    message = f"no registry has an agent {word!r}"
    if reason := snapshot.quarantine().get(word):
        message += f"; the registry keeps it in quarantine ({reason})"
    if skipped := next((why for id, why in catalog.skipped if id == word), ""):
        message += f"; its entry was skipped: {skipped}"
    if near:
        message += f"; did you mean {', '.join(near[:3])}?"
    raise RegistryFault("unknown", f"{message}; see: dragoman agents search", near=near[:3])
