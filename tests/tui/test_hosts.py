"""Tabs, the list of sessions, and sessions on a host with other members."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.host_client.api import resolve_host
from dragoman.config.config_file import NamedAgent
from dragoman.tui import session_list
from tests.cli.serve_process import Served
from tests.tui.window import ENTER, SMALL, Window, open_window

CTRL_N, CTRL_O, CTRL_K, ALT_1 = "\x0e", "\x0f", "\x0b", "\x1b1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    agent = [sys.executable, str(Path(__file__).parents[1] / "cli" / "small_agent.py")]
    host = Served(tmp_path_factory.mktemp("host"), "--bind", "127.0.0.1:0", agent=agent)
    yield host
    host.end(signal.SIGKILL)


def hosted(served: Served, session: str) -> SessionOptions:
    """The options of a session on the host."""
    agent = NamedAgent(name="small", command="")
    return SessionOptions(agent=agent, host=resolve_host(served.url), session=session, cwd=str(served.folder))


@pytest.mark.item("FA-21")
async def test_sessions_of_the_store_and_of_a_host_are_listed_and_open_in_tabs(served: Served, here: Path) -> None:
    local = SessionOptions(agent=SMALL, cwd=str(here))
    config = here.parent / "config" / "dragoman"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[hosts.office]\nurl = "{served.url}"\n')
    async with open_window(here, options=hosted(served, "roof")) as window:
        window.type("on the host" + ENTER)
        await window.expect_that(lambda: window.text.count("on the host") >= 2)
    async with open_window(here, options=local) as window:
        window.type("in the store" + ENTER)
        await window.expect("● in the store")  # in the list at the left
        await window.expect("office")
        await window.expect("roof")
        window.type(CTRL_O)
        await window.expect("Open a session")
        window.type("roof")
        await window.expect("❯ roof")
        window.type(ENTER)
        await window.expect_that(lambda: len(window.app.tabs) == 2)
        await window.expect("│ on the host")  # its history
        window.type("still here" + ENTER)
        await window.expect_that(lambda: window.text.count("still here") >= 2)
        window.type(ALT_1)
        await window.expect("│ in the store")
        window.type(CTRL_N)
        await window.expect("New session with")
        window.type(ENTER)
        await window.expect_that(lambda: len(window.app.tabs) == 3)
        await window.expect_that(lambda: window.app.shown_tab.state == "ready")
        assert " 1 in the store  2 roof  3 small" in window.lines[0].replace("● ", "")


@pytest.mark.item("FA-21")
async def test_the_list_shows_which_sessions_of_a_host_run_and_which_ask(
    served: Served, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_list, "REFRESH_INTERVAL", 0.5)
    config = here.parent / "config" / "dragoman"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[hosts.office]\nurl = "{served.url}"\n')
    async with (
        open_window(here, options=hosted(served, "garden")) as ann,
        open_window(here, options=SessionOptions(agent=SMALL, cwd=str(here))) as ben,
    ):
        ann.type("first words" + ENTER)
        await ann.expect_that(lambda: ann.text.count("first words") >= 2)
        await ben.expect("○ garden")
        ann.type("await spring.txt" + ENTER)
        await ben.expect("◐ garden")
        (served.folder / "spring.txt").write_text("")
        await ann.expect("waiting no more")
        await ben.expect("○ garden")
        ann.type("write bed.txt tulips" + ENTER)
        await ann.expect("Write bed.txt")
        await ben.expect("● garden")
        assert ben.style_of("● garden").fg == ben.style_of("1 needs you").fg
        listed = [line for line in ben.lines if "garden" in line or "○" in line]
        assert "garden" in listed[0]  # what needs somebody is first
        await ann.answer("y")
        await ann.expect("It is written.")
        await ben.expect("○ garden")


def story(window: Window) -> list[str]:
    """What the transcript says, without times and notes."""
    kinds = ("user", "message", "card")
    blocks = [block.content for block in window.app.shown_tab.flow.blocks if block.content.kind in kinds]
    return [block.copy_text() for block in blocks]


@pytest.mark.item("FA-28", "FA-21")
async def test_two_windows_in_one_session_show_the_same_story_in_the_same_order(served: Served, here: Path) -> None:
    async with open_window(here, options=hosted(served, "cellar")) as ann:
        ann.type("first words" + ENTER)
        await ann.expect_that(lambda: ann.text.count("first words") >= 2)
        async with open_window(here, options=hosted(served, "cellar")) as ben:
            await ben.expect("│ first words")
            ann.type("write both.txt two" + ENTER)
            await ben.expect("Write both.txt")
            ben.type("waits its turn" + ENTER)
            await ann.expect("1 waits")
            await ben.answer("y")
            for window in (ann, ben):
                await window.expect("It is written.")
                await window.expect_that(lambda window=window: len(story(window)) >= 7)  # type: ignore[misc]
                await window.expect_that(lambda window=window: not window.app.shown_tab.is_asking)  # type: ignore[misc]
            assert story(ann) == story(ben)
            assert story(ann)[-2:] == ["waits its turn", "waits its turn"]
            assert ann.app.shown_tab.members_text().count("admin") == 2
            await ann.expect("Here")


async def test_a_session_on_a_host_is_shared_by_a_link(served: Served, here: Path) -> None:
    async with open_window(here, options=hosted(served, "attic")) as window:
        window.type(CTRL_K)
        await window.expect("All actions")
        window.type("read along" + ENTER)
        await window.expect("Share link")
        await window.expect("?token=dgm_")
        await window.expect("For a viewer, valid until")
        assert window.app.overlay is not None


async def test_closing_a_tab_leaves_the_turn_running_on_the_host(served: Served, here: Path) -> None:
    options = hosted(served, "porch")
    async with open_window(here, options=options) as window:
        window.type("await go.txt" + ENTER)
        await window.expect("waiting")
    (served.folder / "go.txt").write_text("")
    async with open_window(here, options=options) as window:
        await window.expect("waiting no more")
        assert story(window) == ["await go.txt", "waiting no more"]
        assert not window.app.shown_tab.is_asking
