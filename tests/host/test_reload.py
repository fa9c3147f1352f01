"""Settings that a running host gets count from then on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dragoman.config.host_section import HostSection
from dragoman.config.paths import user_paths
from dragoman.errors import DragomanError
from dragoman.host.agents import agent_target
from dragoman.host.reload import Settings, apply_settings
from tests.host.http.test_app import hosted_app
from tests.host.memory_host import TALKER


async def test_a_new_open_timeout_counts_for_the_start_that_learns_capabilities(tmp_path: Path) -> None:
    silent = msgspec.structs.replace(TALKER, command="sleep", args=("600",), dialect="v1")
    old = Settings(HostSection(), [TALKER], {})
    new = Settings(HostSection(limits={"open_timeout": 0.3}), [silent], {})
    async with hosted_app(tmp_path) as at:
        host = at.hosted.host
        host.agent_catalog.target_of = agent_target
        apply_settings(host, at.app, old, new, user_paths({"HOME": str(tmp_path)}), lambda: None)
        with pytest.raises(DragomanError, match=r"not answered within 0\.3 s"):
            await host.agent_catalog.initialize_result(silent)
