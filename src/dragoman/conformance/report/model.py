"""A report as values: the peer, each requirement with its outcome, and the counts.

It is written as JSON and read again as a baseline.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

import msgspec

from dragoman.conformance.requirement import CHAPTERS, requirements
from dragoman.conformance.verdict import Evidence, Outcome, Verdict
from dragoman.errors import ConfigFault
from dragoman.policy.redaction import Redactor, command_secrets

FORMAT = 1

# Characters that act or hide: controls but tab and newline, marks that change the direction of writing, surrogates.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


class Row(msgspec.Struct, kw_only=True):
    """One requirement and its outcome."""

    id: str
    level: str
    sentence: str
    source: str
    outcome: Outcome
    why: str
    seconds: float
    stderr: int = 0
    evidence: list[Evidence] = []

    @property
    def is_broken(self) -> bool:
        """Whether a MUST failed."""
        return self.outcome is Outcome.FAIL and self.level == "MUST"

    @property
    def chapter(self) -> str:
        """The id without its number."""
        return self.id.rpartition(".")[0]


class Report(msgspec.Struct, kw_only=True):
    """A whole check."""

    format: int
    side: str
    peer: list[str]
    dialect: str
    began: str
    seconds: float
    rows: list[Row]
    complete: bool = True
    """Whether the check ran to its end."""

    def counts(self) -> dict[str, int]:
        """Return how many requirements had which outcome."""
        return {outcome: sum(row.outcome is outcome for row in self.rows) for outcome in Outcome}

    @property
    def is_conclusive(self) -> bool:
        """Whether anything passed or failed."""
        return any(row.outcome in (Outcome.PASS, Outcome.FAIL) for row in self.rows)

    @property
    def is_broken(self) -> bool:
        """Whether any MUST failed."""
        return any(row.is_broken for row in self.rows)


def report(
    side: str,
    peer: Sequence[str],
    dialect: str,
    verdicts: Iterable[Verdict],
    seconds: float,
    *,
    secrets: Iterable[str] = (),
    complete: bool = True,
) -> Report:
    """Return the report of these verdicts, with secrets redacted: these, those of the command line, and likely ones."""
    rules = Redactor([*secrets, *command_secrets(peer)])
    table = requirements()
    rows = []
    for verdict in verdicts:
        known = table[verdict.requirement]
        rows.append(
            Row(
                id=known.id,
                level=known.level.value,
                sentence=known.sentence,
                source=known.source,
                outcome=verdict.outcome,
                why=rules.redact_text(verdict.why),
                seconds=verdict.seconds,
                stderr=verdict.stderr,
                evidence=[
                    msgspec.structs.replace(each, text=rules.redact_text(each.text)) for each in verdict.evidence
                ],
            )
        )
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
    return Report(
        format=FORMAT,
        side=side,
        peer=rules.redact_command(peer),
        dialect=dialect,
        began=began,
        seconds=round(seconds, 1),
        rows=rows,
        complete=complete,
    )


def titles() -> dict[str, str]:
    """Return the title of each chapter by its name."""
    return {chapter.name: chapter.title for chapter in CHAPTERS}


def to_json(made: Report) -> bytes:
    """Return the report as JSON, indented for people and for diffs."""
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


def read(path: str) -> Report:
    """Return the report in a file."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Report)
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror}"]) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigFault([f"{path} is not a report of `dragoman check --json`: {error}"]) from None


def escape_hidden(text: str) -> str:
    """Return text of a peer with every hidden or control character made visible."""
    return _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)
