"""Remove secrets from the end of stderr that the error of an ended process quotes: it travels to clients and logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def stderr_redactor(*environments: Mapping[str, str]) -> Callable[[str], str]:
    """Return the function that redacts what a process with these variables wrote to stderr."""

    def redact(text: str) -> str:
        from dragoman.policy.redaction import Redactor, environment_secrets  # an agent that works never needs it

        return Redactor(secret for each in environments for secret in environment_secrets(each)).redact_text(text)

    return redact
