"""Sessions of a host on one tree: stale writes are refused with the name of who changed the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import ProtocolError
from tests.host.memory_host import open_session, running_host
from tests.host.room.test_workspace import Buffers, free_guard


@pytest.mark.item("BR-27")
async def test_two_rooms_on_one_tree_of_the_host_do_not_overwrite_each_other(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    async with running_host(make_guard=free_guard) as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        first, second = await open_session(ann, tmp_path), await open_session(ben, tmp_path)
        for session in (first, second):
            assert await session.ask(f"read {file}") == "one"
        await first.ask(f"write {file} two")
        with pytest.raises(ProtocolError, match="was changed by talker in a session of ann since this session last"):
            await second.ask(f"write {file} three")
        assert file.read_text() == "two"
        assert await second.ask(f"read {file}") == "two"
        await second.ask(f"write {file} three")
        assert file.read_text() == "three"


async def test_two_rooms_that_use_the_files_of_one_client_do_not_overwrite_each_other(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    editor = Buffers(**{"a.txt": "one"})

    async with running_host(make_guard=free_guard) as hosted, hosted.client("ann", **editor.options()) as ann:
        first, second = await open_session(ann, tmp_path), await open_session(ann, tmp_path)
        for session in (first, second):
            assert await session.ask(f"read {file}") == "one"
        await first.ask(f"write {file} two")
        editor.texts["a.txt"] = "two"
        with pytest.raises(ProtocolError, match="was changed by talker in a session of ann"):
            await second.ask(f"write {file} three")
        assert await second.ask(f"read {file}") == "two"
        await second.ask(f"write {file} three")
        assert editor.wrote == {"a.txt": "three"}
        editor.texts["a.txt"] = "typed by the user"
        with pytest.raises(ProtocolError, match="was changed by"):
            await second.ask(f"write {file} four")
        await second.ask(f"write {tmp_path / 'new.txt'} fresh")
        assert editor.wrote["new.txt"] == "fresh"
