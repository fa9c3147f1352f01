"""The URL of a store, parsed in one place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.config.host_section import host_database_path, store_address
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault, StoreFault
from dragoman.host.auth.database import HostDatabase, lock_store
from dragoman.store.contract import Draft
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.store.urls import SCHEMES, StoreAddress, open_store, parse_address


@pytest.mark.parametrize("text", ["{}/a.db", "sqlite:{}/a.db", "sqlite://{}/a.db", "SQLite:{}/a.db", "{}/./b/../a.db"])
def test_a_file_can_be_named_in_several_ways(tmp_path: Path, text: str) -> None:
    assert parse_address(text.format(tmp_path)) == StoreAddress("sqlite", f"{tmp_path}/a.db")


def test_paths_may_be_relative_or_from_home_and_have_colons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert parse_address("a.db").path == f"{tmp_path}/a.db"
    assert parse_address("sqlite:a.db").path == f"{tmp_path}/a.db"
    assert parse_address("~/a.db").path == f"{tmp_path}/home/a.db"
    assert parse_address("./odd:name.db").path == f"{tmp_path}/odd:name.db"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("postgres://x/y", "unknown store 'postgres'; write a path, or sqlite:PATH, memory:"),
        ("odd:name.db", "(for a file of that name: ./odd:name.db)"),
        ("sqlite://office/a.db", "three slashes, or none"),
        ("sqlite:", "the address has no file name, as in sqlite:PATH"),
        ("folder/", "the address has no file name"),
        ("memory:mine", "has no name, as in memory:"),
    ],
)
def test_an_invalid_address_is_rejected_with_the_valid_forms(text: str, said: str) -> None:
    with pytest.raises(ConfigFault) as refused:
        parse_address(text)
    assert text in str(refused.value)
    assert said in str(refused.value)


async def test_a_store_is_opened_by_its_address(tmp_path: Path) -> None:
    for text, kind in ((f"sqlite:{tmp_path}/a.db", SqliteStore), ("memory:", MemoryStore)):
        store = await dragoman.open_store(text)
        assert isinstance(store, kind)
        await store.append("one", [Draft(kind="prompt", actor="ann", time="2026-01-01T00:00:00Z", body={})])
        assert [one.session_id for one in await store.sessions()] == ["one"]
        await store.close()
    again = await open_store(str(tmp_path / "a.db"))
    assert len(await again.sessions()) == 1
    await again.close()


def test_only_the_memory_store_is_not_durable() -> None:
    assert {name for name, scheme in SCHEMES.items() if not scheme.is_durable} == {"memory"}
    assert not parse_address("memory://").is_durable


def test_the_data_of_a_host_is_never_in_the_file_of_its_sessions(tmp_path: Path) -> None:
    here = user_paths({"HOME": str(tmp_path)})
    own = store_address("", here)
    assert (own.path, host_database_path(own, here)) == (here.sessions, here.host_database)
    for text in (f"{tmp_path}/host.db", f"{tmp_path}/a.db", f"{tmp_path}/a.db.host"):
        named = store_address(text, here)
        assert host_database_path(named, here) == f"{text}.host" != named.path
    assert host_database_path(store_address("memory:", here), here) == here.host_database
    for text in (here.host_database, f"sqlite://{here.host_database}"):
        with pytest.raises(ConfigFault, match="where your tokens are kept; name another file"):
            store_address(text, here)


def test_a_folder_behind_a_link_is_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert parse_address(f"{tmp_path}/link/a.db") == parse_address(f"{tmp_path}/real/a.db")


async def test_the_session_and_host_files_are_not_confused(tmp_path: Path) -> None:
    register, sessions = str(tmp_path / "a.db.host"), str(tmp_path / "a.db")
    HostDatabase(register).close()
    with pytest.raises(StoreFault, match="database of another program"):
        await open_store(register)
    await (await open_store(sessions)).close()
    with pytest.raises(StoreFault, match="database of another program"):
        HostDatabase(sessions)


def test_a_session_file_has_one_host_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "new folder" / "a.db")
    with lock_store(path):
        already = rf"another host \(process {os.getpid()}\) serves the sessions in .*a\.db"
        with pytest.raises(StoreFault, match=already), lock_store(path):
            pass
        with lock_store(f"{path}.other"):
            pass
    with lock_store(path):
        pass


def test_a_host_that_was_killed_does_not_block_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    script = (
        "import signal, sys\nfrom dragoman.host.auth.database import lock_store\n"
        "with lock_store(sys.argv[1]):\n print(flush=True)\n signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"
        with pytest.raises(StoreFault, match=rf"process {other.pid}\)"), lock_store(path):
            pass
        other.kill()
        other.wait(60)
    with lock_store(path):
        pass
