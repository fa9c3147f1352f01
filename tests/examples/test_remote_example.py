"""The example agent over HTTP: served by itself, and as a mounted app."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

from dragoman import connect

EXAMPLES = Path(__file__).parents[2] / "examples"
WITHIN = 90.0


def module() -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("remote_example", EXAMPLES / "serve_http.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_agent_and_the_app_answer_over_http_and_websocket() -> None:
    from dragoman.transport.remote.server.listener import open_listener

    async def ask(url: str) -> str:
        async with connect(url) as agent:
            session = await agent.open_session(cwd="/tmp")
            return await session.ask("Hello")

    async def main() -> list[str]:
        example = module()
        async with example.agent.serve_http() as served, open_listener(example.app) as mounted:
            urls = (served.url, mounted.url.replace("http", "ws", 1))
            return [await ask(url) for url in urls]

    assert asyncio.run(asyncio.wait_for(main(), WITHIN)) == ["Hello"] * 2
