"""Pictures of every view of the web page, desk and phone, light and dark: python -m tests.web.pictures FOLDER.

Look at them after each change of the page: no test sees what is ugly.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    ann.page.wait_for_timeout(1000)
    if ann.page.query_selector(".asks"):
        ann.answer_question("y")
    ann.idle()
    ann.say("/edit lines.py text.split text.splitlines")
    ann.answer_question("y")
    ann.idle()
    found["question"] = rpc_session(ann)
    ann.say("/title Last line of files without a newline")
    ann.idle()
    ann.say("/edit lines.py list[str] tuple[str,...]")
    ann.page.wait_for_selector(".asks")
    ann.say("and mention it in the changelog, please")
    found["running"] = rpc_session(ann)
    ann.say("/slow 600")
    ann.page.wait_for_selector("button.stop", state="visible")
    found["empty"] = rpc_session(ann)
    return found


def views(ids: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each view, its address and what to press."""
    yield "inbox", "#/", ""
    yield "session", f"#/s/{ids['talk']}", ""
    yield "question", f"#/s/{ids['question']}", ""
    yield "running", f"#/s/{ids['running']}", ""
    yield "empty", f"#/s/{ids['empty']}", ""
    yield "details", f"#/s/{ids['talk']}/side", ""
    yield "search", "#/search/newline", ""
    yield "status", "#/status", ""
    yield "missing", "#/s/00000000-0000-4000-8000-000000000000", ""
    yield "keys", "#/", "?"
    yield "new", "#/", "n"
    yield "share", f"#/s/{ids['talk']}", "button.share"
    yield "menu", f"#/s/{ids['talk']}", "button[aria-label='More about this session']"


def take(folder: Path, browser: Any, host: WebHost, token: str, ids: dict[str, str]) -> None:
    """Take all pictures."""
    for size_name, size in (("desk", DESK), ("phone", PHONE)):
        for theme in THEMES:
            context = browser.new_context(
                viewport=size,
                color_scheme=theme,
                has_touch=size is PHONE,
                is_mobile=size is PHONE,
                reduced_motion="reduce",
            )
            person = Person(host, context)
            person.page.goto(f"{host.url}/")
            person.page.wait_for_selector("#token")
            person.page.screenshot(path=folder / f"sign-in-{size_name}-{theme}.png")
            person.sign_in(token)
            for name, address, press in views(ids):
                person.page.evaluate("hash => { location.hash = hash }", address)
                person.page.wait_for_timeout(900)
                if press.startswith("button") and not person.page.is_visible(press):
                    continue
                if press.startswith("button"):
                    person.page.click(press)
                    if name == "share":
                        person.page.click("text=Make a link")
                        person.page.wait_for_selector(".qr svg")
                elif press:
                    person.page.evaluate("() => document.activeElement.blur()")
                    person.page.keyboard.press(press)
                person.page.wait_for_timeout(300)
                person.page.screenshot(path=folder / f"{name}-{size_name}-{theme}.png")
                if press:
                    person.page.reload()
                    person.page.wait_for_selector(".app")
            assert person.errors == []
            context.close()


def main(folder: Path) -> int:
    """Take the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        host = WebHost(Path(place))
        try:
            token = host.token("ann", "admin")
            ann = Person(host, browser.new_context(viewport=DESK)).sign_in(token)
            ben = Person(host, browser.new_context(viewport=DESK)).sign_in(host.token("ben", "editor"))
            take(folder, browser, host, token, fill_host(host, ann, ben))
        finally:
            host.end()
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
