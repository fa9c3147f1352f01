"""What is wrong with a package: one line each, with the rule, what was found, and what to do."""

from __future__ import annotations

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """One broken rule."""

    rule: str  # PART.RULE, for scripts
    found: str
    fix: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.found}; {self.fix}"


class Findings(msgspec.Struct, kw_only=True):
    """What the checks found: faults stop the package, fixes were made, notes are for the author."""

    faults: list[Fault] = []
    fixes: list[str] = []
    notes: list[str] = []

    def add_fault(self, rule: str, found: str, fix: str) -> None:
        """Add a broken rule, once."""
        fault = Fault(rule, found, fix)
        if fault not in self.faults:
            self.faults.append(fault)
