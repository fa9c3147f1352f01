"""What happens to the page and to its sessions: restarts, deletions, ends of tokens, and the list that tells of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from tests.cli.process import DRAGOMAN, TIMEOUT
from tests.web.browser import MakePerson, WebHost, needs_browser, rpc_session

pytestmark = needs_browser


# A WebSocket that opens later than the transcript is read.
LATE_SOCKET = """
window.WebSocket = class extends WebSocket {
  addEventListener(type, listener) {
    super.addEventListener(type, type === "open" ? () => { window.openSocket = listener; } : listener);
  }
};
"""


def test_the_first_connection_is_not_called_another_one(tokens: dict[str, str], person: MakePerson) -> None:
    ann = person(tokens["ann"])
    session = rpc_session(ann)
    ann.say("/echo here")
    ann.see("here")
    ann.idle()
    ann.page.add_init_script(LATE_SOCKET)
    ann.page.reload()
    ann.page.wait_for_selector(".answer:has-text('here')")
    ann.wait("() => window.openSocket")
    ann.page.evaluate("window.openSocket()")
    ann.page.wait_for_selector("button.send:not([disabled])")
    ann.say("/echo again")
    ann.see("again")
    ann.idle()
    assert "Connected again" not in ann.page.inner_text("body"), session


@pytest.mark.item("FA-20")
def test_a_session_that_is_deleted_before_the_page_is_connected_is_gone(
    tokens: dict[str, str], person: MakePerson
) -> None:
    ann = person(tokens["ann"])
    session = rpc_session(ann)
    ann.say("/echo here")
    ann.see("here")
    ann.idle()
    ann.page.add_init_script(LATE_SOCKET)
    ann.page.reload()
    ann.page.wait_for_selector(".answer:has-text('here')")
    ann.wait("() => window.openSocket")
    delete = "async id => (await fetch(`api/sessions/${id}`, {method: 'DELETE'})).status"
    assert ann.page.evaluate(delete, session) == 200
    ann.page.evaluate("window.openSocket()")
    ann.page.wait_for_selector(".sheet-box:has-text('This session is gone')")


@pytest.mark.item("FA-05", "FA-20")
def test_a_host_that_is_killed_and_started_again_loses_and_doubles_nothing(tmp_path: Path, person: MakePerson) -> None:
    host = WebHost(tmp_path)
    try:
        ann = person(host.token("ann", "admin"), at=host)
        session = rpc_session(ann)
        ann.say("/stream 40 20")
        ann.see("chunk 00039")
        ann.idle()
        before = ann.page.inner_text(".item >> nth=-1")
        ann.say("/run echo kept by the log")
        ann.answer_question("y")
        ann.see("ended with exit code 0")
        ann.idle()
        ann.say("/slow 30")
        ann.page.wait_for_selector("button.stop", state="visible")
        host.kill()
        ann.page.wait_for_selector(".banner:has-text('No connection for')")
        assert ann.page.is_disabled("button.send")
        ann.page.fill("#composer", "/echo written without a connection")
        host.start()
        ann.page.wait_for_selector(".banner:has-text('Connected again')")
        ann.see("The turn failed: this turn was not finished: the host stopped")
        # The prompt had arrived: the page does not offer it again.
        assert "It is back in the text field" not in ann.page.inner_text("body")
        ann.page.click("button.send")
        ann.page.wait_for_selector(".answer:has-text('written without a connection')")
        ann.idle()
        story = ann.story
        assert story[1] == " ".join(before.split())
        assert sum(line.startswith("ann ") for line in story) == 4
        ann.page.reload()
        ann.page.wait_for_selector(".log:not([hidden])")
        ann.see("written without a connection")
        assert ann.story == story
        # What a command wrote is still there, although the host that ran it is gone.
        ann.page.click(".tool > summary:has-text('kept by the log')")
        ann.page.wait_for_selector(".term:has-text('kept by the log')")
        # A host that stops says so, and the page is the same when it is back.
        assert host.end() == 0
        ann.page.wait_for_selector(".banner:has-text('The host was stopped')")
        host.start()
        ann.page.wait_for_selector(".banner:has-text('Connected again')")
        assert ann.story == story
        # A session that somebody deletes is a state of the page, and so is one that was never there.
        other = person(ann.context.cookies()[0]["value"], at=host).open(session)
        other.page.click("button[aria-label='More about this session']")
        other.page.click(".menu-item:has-text('Delete')")
        other.page.click("dialog .btn.danger")
        ann.page.wait_for_selector(".sheet-box:has-text('deleted by ann')")
        ann.page.reload()
        ann.page.wait_for_selector(".sheet-box:has-text('This session is gone')")
        # A token that ends while the page is open.
        with HostDatabase(str(tmp_path / "state" / "dragoman" / "host.db"), "somebody") as database:
            token, _ = Tokens(database).create("cleo", "viewer", seconds=4.0)
        short = person(token, at=host)
        short.page.wait_for_selector("[data-state=expired]")
        assert "Your token has expired" in short.page.inner_text("main")
    finally:
        host.end()


@pytest.mark.item("FA-03", "FA-04", "FA-12")
def test_sessions_are_listed_found_renamed_forked_exported_and_archived(
    host: WebHost, person: MakePerson, tokens: dict[str, str]
) -> None:
    ann = person(tokens["ann"], permissions=["notifications"])
    page = ann.page
    session = rpc_session(ann)
    ann.say("/echo the marmot whistles")
    ann.see("the marmot whistles")
    ann.idle()
    menu = "button[aria-label='More about this session']"
    page.click(menu)
    page.click(".menu-item:has-text('Rename')")
    page.fill("#new-title", "Marmots")
    page.fill("#new-name", "alps")
    page.click("dialog button[type=submit]")
    # The name that the user gave comes first, as in the list; the title is below.
    page.wait_for_selector("h1:has-text('alps')")
    assert page.inner_text(".head .place").startswith("Marmots · ")
    assert page.title().startswith("alps")
    page.wait_for_selector("nav.sessions [aria-current] .name:has-text('alps')")
    with page.expect_download() as download:
        page.click(menu)
        page.click(".menu-item:has-text('Export as Markdown')")
    assert "the marmot whistles" in Path(download.value.path()).read_text()
    with page.expect_download() as download:
        page.click(menu)
        page.click(".menu-item:has-text('Export the log')")
    assert Path(download.value.path()).read_text().count("marmot whistles") >= 2
    page.click(menu)
    page.click(".menu-item:has-text('Fork')")
    ann.wait("id => location.hash.startsWith('#/s/') && !location.hash.includes(id)", session)
    ann.see("the marmot whistles")
    # A question of a session that is not on the screen: the list, the title and a notification tell.
    page.evaluate(
        """() => { window.told = []; window.Notification = class { static permission = 'granted';
            constructor(title, options) { window.told.push([title, options.body]); } addEventListener() {} };
            ServiceWorkerRegistration.prototype.showNotification = async (title, options) => {
                window.told.push([title, options.body]); };
            document.hasFocus = () => false; }"""
    )
    ann.say("/ask")
    page.wait_for_selector(".asks")
    page.evaluate("() => { location.hash = '#/' }")
    page.wait_for_selector(".asking-row")
    rows = page.inner_text(".page section:first-child")
    assert re.search(r"Needs you\s*1", rows)
    assert "May I?" in rows
    assert page.title().startswith("(1) ")
    ((title, body),) = page.evaluate("() => window.told")
    assert title.endswith("needs you")
    assert body.startswith("May I?")
    # Words of transcripts.
    page.fill(".find input", "marmot")
    page.press(".find input", "Enter")
    page.wait_for_selector(".hits mark:has-text('marmot')")
    page.click(".hits a >> nth=0")
    ann.see("the marmot whistles")
    # Archive, and where it is then.
    page.evaluate("id => { location.hash = `#/s/${id}` }", session)
    page.wait_for_selector("h1:has-text('alps')")
    page.click(menu)
    page.click(".menu-item:has-text('Archive')")
    page.wait_for_selector(".page")
    ann.wait("() => !document.querySelector('.page .rows')?.innerText.includes('alps')")
    page.click(".pill:has-text('Archived')")
    page.wait_for_selector(".rows:has-text('alps')")
    page.click(".pill:has-text('All')")


@pytest.mark.item("FA-29")
def test_every_text_of_the_page_is_in_one_file() -> None:
    assets = Path(__file__).parents[2] / "src" / "dragoman" / "web" / "assets"
    texts = (assets / "texts.js").read_text()
    used: dict[str, set[str]] = {}
    for module in sorted(assets.rglob("*.js")):
        source = module.read_text()
        for name in re.findall(r"\bT\.(\w+)", source):
            used.setdefault(name, set()).add(module.name)
        if module.name in ("texts.js", "sw.js"):
            continue
        # A sentence in a call that makes an element or a message would be a text beside the file.
        found = re.findall(
            r'(?:toast|textContent = |h\("[\w.]+", (?:null|\{[^}]*\}), )\(?"([A-Z][a-z]+ [a-z ]{6,})"', source
        )
        assert found == [], module.name
    missing = [name for name in used if not re.search(rf"^  {name}:", texts, re.M)]
    assert missing == []
    unused = [name for name in re.findall(r"^  (\w+):", texts, re.M) if name not in used]
    assert unused == ["plus", "minus"]  # by the kind of a row: T[kind]


def test_calls_of_an_agent_that_was_started_again_stay_apart(
    host: WebHost, tokens: dict[str, str], person: MakePerson
) -> None:
    ann = person(tokens["ann"])
    rpc_session(ann)
    for name in ("first", "second"):
        ann.say(f"/write {name}-of-two.txt hello")
        ann.answer_question("y")
        ann.see(f"Created {name}-of-two.txt")
        ann.idle()
        if name == "first":
            ann.say("/crash")  # the next process gives its first call the same id
            ann.see("The agent exited")
            ann.idle()
    ann.page.reload()
    ann.page.wait_for_selector(".log:not([hidden])")
    ann.see("Created second-of-two.txt")
    calls = ann.page.eval_on_selector_all(".item .tool > summary", "nodes => nodes.map(node => node.innerText)")
    assert [re.search(r"\w+-of-two", call)[0] for call in calls] == ["first-of-two", "second-of-two"]  # type: ignore[index]


def test_a_host_without_folders_says_how_to_start_it_and_suggests_none(tmp_path: Path, person: MakePerson) -> None:
    host = WebHost(tmp_path, has_root=False)
    try:
        command = [*DRAGOMAN, "run", "--host", host.url, "--prompt", "/echo hello"]
        subprocess.run(command, cwd=host.project, env=host.environ, capture_output=True, timeout=TIMEOUT, check=True)
        owner = person(host.token(host.process_owner(), "admin"), at=host)
        owner.wait("async () => (await (await fetch('api/sessions')).json()).sessions.length === 1")
        owner.page.click("button[aria-label='New session']")
        owner.page.wait_for_selector("text=start the host with --root DIR")
        assert owner.page.input_value("#new-folder") == ""
        assert owner.page.evaluate("async () => (await (await fetch('api/folders?path=')).json()).folders") == []
    finally:
        host.end()
