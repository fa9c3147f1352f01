"""Programs that are no agents are reported as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import StartFailed, connect


async def test_a_program_that_repeats_its_input_is_not_an_agent(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="cat is not an ACP agent: it sends back what it gets"):
        async with connect("cat", cwd=str(tmp_path)):
            pass
