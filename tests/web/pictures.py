"""Pictures of every view of the web page, desk and phone, light and dark: python -m tests.web.pictures FOLDER [DOCS].

Look at them after each change of the page: no test sees what is ugly. With DOCS, those of README and docs go there.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.web.browser import DESK, PHONE, Person, WebHost, chromium, rpc_session

SOURCE = """def lines(text: str) -> list[str]:
    out, rest = [], text.split("\\n")[:-1]
    return [line for line in rest]


def count(text: str) -> int:
    return len(lines(text))
"""

ANSWER = """/echo The reader splits at newlines and drops the last piece. Two places:

1. `lines()` cuts the last piece off
2. `tests/test_lines.py` has no file **without** a newline

```python
def lines(text: str) -> list[str]:
    return [line.rstrip("\\r") for line in text.splitlines()]  # the last one too
```

| file | lines |
|---|---|
| src/lines.py | 48 |
| tests/test_lines.py | 112 |
"""

THEMES = ("light", "dark")

# The pictures of README and docs.
DOCS = {"web-question.png": "question-desk-light.png", "web-phone.png": "session-phone-dark.png"}


def fill_host(host: WebHost, ann: Person, ben: Person) -> dict[str, str]:
    """Make sessions in all states. Return their ids by what they show."""
    (host.project / "lines.py").write_text(SOURCE)
    found = {}
    found["talk"] = rpc_session(ann)
    ann.set_role(found["talk"], "ben", "editor")
    ben.open(found["talk"])
    for prompt in (ANSWER, "/think The reader drops what follows the last newline.", "/plan", "/usage"):
        ann.say(prompt)
        ann.idle()
    ann.say(r"/run printf '\033[32m41 passed\033[0m, \033[31m1 failed\033[0m in 0.31s\n'; exit 1")
    ann.answer_question("y")
    ann.see("ended with exit code 1")
    ann.idle()
    ann.say("/edit lines.py text.split text.splitlines")
    ann.answer_question("y")
    ann.idle()
    found["question"] = fill_question(ann)
    found["running"] = rpc_session(ann)
    ann.say("/slow 600")
    ann.page.wait_for_selector("button.stop", state="visible")
    found["empty"] = rpc_session(ann)
    return found


def fill_question(ann: Person) -> str:
    """Make a session whose agent asks. Return its id."""
    (ann.host.project / "lines.py").write_text(SOURCE)
    session = rpc_session(ann)
    ann.say("/title Last line of files without a newline")
    ann.idle()
    ann.say("/edit lines.py list[str] tuple[str,...]")
    ann.page.wait_for_selector(".asks")
    ann.say("and mention it in the changelog, please")
    ann.page.wait_for_selector(".queue li")
    return session


class View(NamedTuple):
    """A view: its address, what to press there (a key or a button), and what is there when it is complete."""

    address: str
    ready: str
    press: str = ""
    pressed: str = ""


def views(ids: dict[str, str]) -> dict[str, View]:
    """Return the views by name."""
    talk = f"#/s/{ids['talk']}"
    menu = "button[aria-label='More about this session']"
    return {
        "inbox": View("#/", ".asking-row"),
        "session": View(talk, ".item:has-text('Changed lines.py')"),
        "question": View(f"#/s/{ids['question']}", ".asks.settled .btn.main"),
        "running": View(f"#/s/{ids['running']}", ".tool .spin"),
        "empty": View(f"#/s/{ids['empty']}", ".log:not([hidden]) >> text=Nothing was said yet"),
        "details": View(f"{talk}/side", ".side .files"),
        "search": View("#/search/newline", ".hits mark"),
        "status": View("#/status", ".tiles"),
        "missing": View("#/s/00000000-0000-4000-8000-000000000000", ".sheet-box"),
        "keys": View("#/", ".asking-row", "?", "dialog .keys"),
        "new": View("#/", ".asking-row", "n", "#new-setting-model"),
        "share": View(talk, ".item:has-text('Changed lines.py')", "button.share", ".made"),
        "menu": View(talk, ".item:has-text('Changed lines.py')", menu, ".menu-item"),
    }


def take_view(person: Person, view: View, path: Path) -> bool:
    """Take a picture of a view; False if this size has no such button."""
    page = person.page
    page.evaluate("hash => { location.hash = hash }", view.address)
    page.wait_for_selector(view.ready)
    if view.press.startswith("button"):
        if not page.is_visible(view.press):
            return False
        page.click(view.press)
    elif view.press:
        page.evaluate("() => document.activeElement.blur()")
        page.keyboard.press(view.press)
    if view.press == "button.share":
        page.click("text=Make a link")
        page.wait_for_selector(".qr svg")
    if view.press == "n" and not page.is_visible(view.pressed):
        page.click("text=Mode, model and other settings")
    if view.pressed:
        page.wait_for_selector(view.pressed)
    page.evaluate("async () => { await document.fonts.ready; await new Promise(requestAnimationFrame); }")
    page.screenshot(path=path)
    if view.press:
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog, .menu-layer", state="detached")
    return True


SIZES = {"desk": DESK, "phone": PHONE}


def looks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each size in each theme: the end of its pictures' names, and what a browser is given."""
    for (size_name, size), theme in itertools.product(SIZES.items(), THEMES):
        is_phone = size_name == "phone"
        touch = {"has_touch": is_phone, "is_mobile": is_phone}
        yield f"{size_name}-{theme}", {"viewport": size, "color_scheme": theme, "reduced_motion": "reduce", **touch}


def take(folder: Path, browser: Any, host: WebHost, tokens: dict[str, str], ids: dict[str, str]) -> None:
    """Take all pictures."""
    for look, options in looks():
        person = Person(host, browser.new_context(**options))
        person.page.goto(f"{host.url}/")
        person.page.wait_for_selector("#token")
        person.page.screenshot(path=folder / f"sign-in-{look}.png")
        person.sign_in(tokens["ann"])
        for name, view in views(ids).items():
            take_view(person, view, folder / f"{name}-{look}.png")
        owner = Person(host, browser.new_context(**options)).sign_in(tokens["owner"])  # sees users and tokens
        take_view(owner, View("#/status", "text=Users and tokens"), folder / f"owner-{look}.png")
        for each in (person, owner):
            assert each.errors == []
            each.context.close()


def take_all(folder: Path, browser: Any) -> None:
    """Fill a host, and take pictures of its page into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        host = WebHost(Path(place))
        try:
            tokens = {"ann": host.token("ann", "admin"), "owner": host.token(host.process_owner(), "admin")}
            ann = Person(host, browser.new_context(viewport=DESK)).sign_in(tokens["ann"])
            ben = Person(host, browser.new_context(viewport=DESK)).sign_in(host.token("ben", "editor"))
            take(folder, browser, host, tokens, fill_host(host, ann, ben))
            for each in (ann, ben):
                each.context.close()
        finally:
            host.end()


def main(folder: Path, docs: Path | None = None) -> int:
    """Take the pictures into a folder, and copy those of README and docs."""
    with chromium() as browser:
        take_all(folder, browser)
    if docs is not None:
        for name, source in DOCS.items():
            shutil.copyfile(folder / source, docs / name)
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
