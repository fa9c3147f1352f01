"""The HTML page of `dragoman inspect export`, in a real browser."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.cli.process import in_process
from tests.web.browser import PHONE, needs_browser

pytestmark = needs_browser

NAMES = ["context", "redact", "a_proxy_with_a_long_name.py"]
MESSAGE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


def chain_page(folder: Path) -> Path:
    """Write the page of a chain of three proxies."""
    ends = ["Client", *NAMES, "Agent"]
    for hop in range(4):
        header = {
            "dragoman": "recording",
            "format": 1,
            "command": ["dragoman", "conduct", *NAMES, "--", "agent"],
            "epoch": 1795067278230355 + hop,
            "between": ends[hop : hop + 2],
        }
        lines = [header, {"t": hop, "dir": "c2a", "msg": MESSAGE}]
        name = f"talk.hop-{hop + 1}.ndjson" if hop else "talk.ndjson"
        (folder / name).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    shown = in_process("inspect", "export", "talk.ndjson", "--html", "--out", "talk.html", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    return folder / "talk.html"


def test_the_names_of_five_lifelines_do_not_cover_each_other_on_a_phone(tmp_path: Path, browser: Any) -> None:
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto(chain_page(tmp_path).as_uri())
    spans = page.locator(".heads span")
    assert spans.all_inner_texts() == ["Client", *NAMES, "Agent"]
    boxes = [spans.nth(number).bounding_box() for number in range(5)]
    context.close()
    gaps = [right["x"] - left["x"] - left["width"] for left, right in pairwise(boxes)]
    assert min(gaps) >= 0, gaps
    assert boxes[0]["x"] >= 0
    assert boxes[-1]["x"] + boxes[-1]["width"] <= PHONE["width"]
