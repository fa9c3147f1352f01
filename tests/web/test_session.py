"""A session on the page: stream, tool calls, questions, settings, queue, and several people in it."""

from __future__ import annotations

import base64

import pytest

from tests.web.browser import PHONE, MakePerson, WebHost, needs_browser, rpc_session

pytestmark = needs_browser

# A picture of one pixel.
PIXEL = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
).decode()


@pytest.mark.item("FA-06", "FA-08", "FA-19")
def test_two_people_and_a_phone_see_the_same_story_and_one_of_them_answers(
    host: WebHost, person: MakePerson, tokens: dict[str, str]
) -> None:
    (host.project / "lines.py").write_text("def lines(text):\n    return text.split()\n")
    ann = person(tokens["ann"])
    session = rpc_session(ann)
    ann.set_role(session, "ben", "editor")
    ben = person(tokens["ben"]).open(session)
    phone = person(tokens["ben"], size=PHONE, has_touch=True, is_mobile=True).open(session)
    ann.say("/edit lines.py split() splitlines()")
    for each in (ann, ben, phone):
        each.page.wait_for_selector(".asks")
        asked = each.page.inner_text(".asks")
        # Everything that is asked about is there before it can be answered.
        assert "Change this file?" in asked
        assert "lines.py" in asked
        assert "asked by Everything" in asked
        assert each.page.eval_on_selector_all(".asks ins, .asks del", "marks => marks.map(mark => mark.innerText)") == [
            "split", "splitlines",
        ]  # fmt: skip
    assert "answer within" in ann.page.inner_text(".asks")
    phone.await_answers()
    phone.page.tap(".asks .btn.main")
    for each in (ann, ben, phone):
        each.page.wait_for_selector(".asks", state="detached")
        each.see("Changed lines.py.")
        each.idle()
        assert each.page.inner_text(".item .tool > summary .sum .vh, .item .tool > summary").count("lines.py") == 1
    assert "allowed by ben" in ann.page.inner_text(".item .tool > summary")
    assert (host.project / "lines.py").read_text() == "def lines(text):\n    return text.splitlines()\n"
    ben.say("/think why not")
    phone.say("and `this`")
    for each in (ann, ben, phone):
        each.see("and this")
        each.idle()
    ann.await_story(ben)
    assert ann.story[0] == "ann /edit lines.py split() splitlines()"
    # What is live and what is read from the log later is the same.
    ann.page.reload()
    ann.page.wait_for_selector(".log:not([hidden])")
    ann.see("and this")
    ann.await_story(ben)
    # Two columns.
    ann.page.click(".item .tool > summary")
    if not ann.page.is_visible(".diff"):
        ann.page.click(".item .tool > summary")
    ann.page.click(".item .diff-top button")
    assert ann.page.eval_on_selector(".diff.two tr td.minus", "cell => cell.innerText").endswith("return text.split()")
    assert ann.page.eval_on_selector(".diff.two tr td.plus", "cell => cell.innerText").endswith(
        "return text.splitlines()"
    )


@pytest.mark.item("FA-07")
def test_keys_typed_before_a_question_do_not_answer_it(person: MakePerson, tokens: dict[str, str]) -> None:
    ann = person(tokens["ann"])
    rpc_session(ann)
    ann.say("/slow 0.3")
    ann.say("/ask")
    ann.page.evaluate("() => document.activeElement.blur()")
    # Keys come all the time, before the question, when it appears, and right after it.
    ann.page.evaluate(
        """() => { window.typed = 0; window.typist = setInterval(() => { window.typed += 1;
            dispatchEvent(new Event('x'));
            document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'y', bubbles: true})); }, 60); }"""
    )
    ann.page.wait_for_selector(".asks")
    before = ann.page.evaluate("() => window.typed")
    ann.wait("before => window.typed > before + 25", before)
    assert ann.page.query_selector(".asks.settled") is None
    ann.page.evaluate("() => clearInterval(window.typist)")
    assert ann.page.is_visible(".asks")
    # The field takes what is typed into it, also Enter, while the question is open.
    ann.page.fill("#composer", "y")
    ann.page.press("#composer", "Enter")
    ann.page.wait_for_selector(".queue li")
    assert ann.page.is_visible(".asks")
    ann.answer_question("n")
    ann.page.wait_for_selector(".asks", state="detached")
    ann.see("reject")


@pytest.mark.item("FA-08", "FA-09")
def test_output_plan_usage_and_settings(host: WebHost, person: MakePerson, tokens: dict[str, str]) -> None:
    ann = person(tokens["ann"])
    rpc_session(ann)
    ann.page.click(".pick:has-text('Ask')")
    ann.page.click(".menu-item:has-text('Code')")
    ann.see("Mode: code")
    ann.page.click(".pick:has-text('Plain')")
    ann.page.click(".menu-item:has-text('Loud')")
    ann.page.wait_for_selector(".pick:has-text('Loud')")
    ann.say("quietly")
    ann.see("QUIETLY")
    ann.say("/plan")
    ann.page.wait_for_selector(".plan li.done:nth-child(3)")
    assert "3 of 3" in ann.page.inner_text(".side")
    ann.say("/usage")
    ann.see("15 tokens")
    assert "0.25 USD" in ann.page.inner_text(".side")
    ann.say(r"/run for n in $(seq 40); do printf '\033[31mred %s\033[0m\n' $n; done")
    ann.answer_question("y")  # the host asks for its own workspace
    ann.see("exit code 0")
    ann.page.click(".item .tool > summary:has-text('seq 40')")
    ann.page.wait_for_selector(".term .x-front1")
    assert ann.page.inner_text(".term .more") == "28 lines before"
    ann.page.click(".term .more")
    assert ann.page.eval_on_selector_all(".term > div", "lines => lines.length") == 40
    ann.say("/echo ```python\ndef hi(): return 'x'\n```")
    ann.page.wait_for_selector(".code .tk")
    ann.say("/crash")
    ann.page.wait_for_selector(".item.bad:has-text('The agent exited')")
    ann.say("/echo again")
    ann.see("again")


@pytest.mark.item("FA-10", "FA-11")
def test_the_composer_completes_attaches_and_takes_back(
    host: WebHost, person: MakePerson, tokens: dict[str, str]
) -> None:
    (host.project / "notes").mkdir(exist_ok=True)
    (host.project / "notes" / "roof.md").write_text("leaks\n")
    ann = person(tokens["ann"])
    session = rpc_session(ann)
    page = ann.page
    page.type("#composer", "/th")
    page.wait_for_selector(".completions li:has-text('/think')")
    page.press("#composer", "Tab")
    assert page.input_value("#composer") == "/think "
    page.fill("#composer", "")
    page.type("#composer", "/merge look at @roof")
    page.wait_for_selector(".completions li:has-text('notes/roof.md')")
    page.press("#composer", "Enter")
    assert page.input_value("#composer") == "/merge look at @notes/roof.md "
    drop = """([data, name, type, kind]) => {
        const bytes = Uint8Array.from(atob(data), char => char.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([bytes], name, {type}));
        const target = document.querySelector(kind === 'drop' ? '.composer' : '#composer');
        const event = kind === 'drop' ? new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true})
            : new ClipboardEvent('paste', {clipboardData: transfer, bubbles: true, cancelable: true});
        target.dispatchEvent(event);
    }"""
    page.evaluate(drop, [PIXEL, "pixel.png", "image/png", "paste"])
    page.evaluate(drop, [base64.b64encode(b"a note").decode(), "note.txt", "text/plain", "drop"])
    page.wait_for_selector(".chips li:nth-child(2)")
    page.press("#composer", "Enter")
    page.wait_for_selector(".said img.shot")
    ann.see("a note")
    assert "notes/roof.md" in page.inner_text(".said .chip")
    ann.idle()
    # The history of prompts.
    page.press("#composer", "ArrowUp")
    assert page.input_value("#composer").startswith("/merge look at")
    page.fill("#composer", "")
    # Two prompts wait; one of them is taken back, by another page of the same user.
    ann.say("/slow 60")
    page.wait_for_selector("button.stop", state="visible")
    ann.say("/echo one")
    ann.say("/echo two")
    page.wait_for_selector(".queue li:nth-child(2):has-text('/echo two')")
    other = person(tokens["ann"]).open(session)
    other.page.wait_for_selector(".queue li:nth-child(2)")
    other.page.type("#composer", "x")
    ann.page.wait_for_selector(".head .face.typing")
    other.page.fill("#composer", "")
    other.page.click(".queue li:has-text('/echo one') button")
    other.page.wait_for_selector(".queue li:nth-child(2)", state="detached")
    # The queue is told before the answer with the text.
    other.wait("() => document.querySelector('#composer').value === '/echo one'")
    ann.page.click("button.stop")
    ann.see("Stopped")
    ann.see("two")
    ann.idle()
    assert "one" not in [line.rpartition(" ")[2] for line in ann.story]


TITLE_OF_CALL = """async call => {
    const script = document.querySelector('script[type=module]').src;
    const {toolCard} = await import(new URL('view/tool_card.js', script));
    const session = {transcript: {terminals: new Map()}, cwd: '/work', canWrite: true};
    const title = toolCard({version: 0, call: {status: 'completed', ...call}}, session).element.querySelector('.title');
    return [title.innerText, title.querySelector('code')?.innerText ?? ''];
}"""


# Calls, and what of their titles is code.
TITLES: list[tuple[dict[str, object], str]] = [
    ({"title": "Look around", "kind": "search"}, ""),
    ({"title": "Look around. Then stop.", "kind": "read"}, ""),
    ({"title": "Read the notes...", "kind": "read"}, ""),
    ({"title": "Run the tests", "kind": "execute", "rawInput": {"command": "make test"}}, ""),
    ({"title": "Run make test", "kind": "execute", "rawInput": {"command": "make test"}}, "make test"),
    ({"title": "Run make test", "kind": "execute", "rawInput": {"command": ["make", "test"]}}, "make test"),
    ({"title": "make test", "kind": "execute", "rawInput": {"command": "make test"}}, "test"),
    ({"title": "Read Makefile", "kind": "read", "locations": [{"path": "/work/Makefile"}]}, "Makefile"),
    ({"title": "Read notes.txt", "kind": "read"}, "notes.txt"),
    ({"title": "Edit /work/src/lines", "kind": "edit"}, "src/lines"),
    ({"title": "Search `marmot`", "kind": "search"}, "marmot"),
    ({"title": "Ask notes.txt", "kind": "other"}, ""),
]


def test_only_paths_and_commands_in_the_title_of_a_call_are_code(person: MakePerson, tokens: dict[str, str]) -> None:
    ann = person(tokens["ann"])
    for call, code in TITLES:
        shown, in_code = ann.page.evaluate(TITLE_OF_CALL, call)
        assert in_code == code, call
        assert shown == str(call["title"]).replace("/work/", "").replace("`", "")


DURATIONS = """async seconds => {
    const script = document.querySelector('script[type=module]').src;
    const {duration} = await import(new URL('view/parts.js', script));
    return seconds.map(duration);
}"""


def test_a_duration_has_at_most_59_seconds_beside_its_minutes(person: MakePerson, tokens: dict[str, str]) -> None:
    ann = person(tokens["ann"])
    shown = ann.page.evaluate(DURATIONS, [-1, 0.4, 59.4, 59.6, 119.4, 599.7, 3599.9, 7500, 259200])
    expected = ["0 s", "0 s", "59 s", "1 min 0 s", "1 min 59 s", "10 min 0 s", "1 h 0 min", "2 h 5 min", "3 days"]
    assert shown == expected


TURN_TIMES = """count => new Promise(resolve => {
    const times = [];
    const composer = document.querySelector('.composer .bar .num');
    const watch = new MutationObserver(() => {
        const name = [...document.querySelectorAll('.side dt')].find(each => each.innerText === 'Turn');
        times.push([composer.innerText, name?.nextElementSibling.innerText]);
        if (times.length === count) { watch.disconnect(); resolve(times); }
    });
    watch.observe(composer, {childList: true, characterData: true, subtree: true});
})"""


def test_the_details_and_the_composer_show_the_same_time_of_a_turn(person: MakePerson, tokens: dict[str, str]) -> None:
    ann = person(tokens["ann"])
    rpc_session(ann)
    ann.say("/slow 60")
    ann.page.wait_for_selector("button.stop", state="visible")
    times = ann.page.evaluate(TURN_TIMES, 3)
    assert [composer for composer, _ in times] == [details for _, details in times]
    assert len({composer for composer, _ in times}) == 3
    ann.page.click("button.stop")
    ann.idle()


@pytest.mark.item("FA-04", "FA-09")
def test_a_new_session_begins_with_the_chosen_mode_and_settings(person: MakePerson, tokens: dict[str, str]) -> None:
    ann = person(tokens["ann"])
    page = ann.page
    count = "async () => (await (await fetch('api/sessions')).json()).sessions.length"
    before = page.evaluate(count)
    # The agent is asked for its settings; who then cancels leaves no session behind.
    page.click("button[aria-label='New session']")
    page.fill("#new-folder", str(ann.host.project))
    page.click("text=Mode, model and other settings")
    page.wait_for_selector("#new-setting-mode")
    assert page.evaluate(count) == before + 1
    page.keyboard.press("Escape")
    ann.wait("async before => (await (await fetch('api/sessions')).json()).sessions.length === before", before)
    # From then on they are known.
    page.click("button[aria-label='New session']")
    page.fill("#new-folder", str(ann.host.project))
    page.select_option("#new-setting-mode", label="Code")
    page.select_option("#new-setting-model", label="Loud")
    page.select_option("#new-setting-verbose", label="on")
    page.click("dialog button[type=submit]")
    for chosen in ("Code", "Loud", "Verbose: on"):
        page.wait_for_selector(f".pick:has-text('{chosen}')")
    ann.say("as chosen")
    ann.see("AS CHOSEN")
    page.reload()
    page.wait_for_selector(".pick:has-text('Code')")
    assert page.is_visible(".pick:has-text('Loud')")
