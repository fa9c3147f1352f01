"""The tests that docs/security.md names; `python -m tests.attacks.page` prints them for pytest."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"


def named_tests() -> list[str]:
    """Return the tests that the page names, as pytest takes them."""
    return re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    print("\n".join(named_tests()))
