"""A stored session as a document for people: one HTML page without scripts, or Markdown.

All text of the session is escaped, and the page's policy forbids scripts and requests.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from typing import Any

from dragoman.cli.ui.format import diff_lines, format_count
from dragoman.cli.ui.markdown import TABLE_RULE, parse_inline, split_cells
from dragoman.cli.ui.terminal import sanitize, sanitize_line
from dragoman.cli.ui.transcript_view import block_text
from dragoman.cli.ui.turn_view import content_text, tool_call_line
from dragoman.schema.toolcall import Diff, ToolCallBlock
from dragoman.session.message import Message
from dragoman.session.toolcall import ToolCall
from dragoman.store.contract import Summary
from dragoman.store.replay import build_transcript

# What is shown of one change; a longer one is counted. Lines.
MAX_DIFF_LINES = 400

_SPEAKERS = {"user": "You", "agent": "Agent", "thought": "Thought"}
_TAGS = {"bold": "strong", "italic": "em", "strike": "s", "code": "code", "underline": "u", "dim": "small"}
_BLOCK = re.compile(r"(?P<fence>```|~~~)|(?P<level>#{1,6})[ \t]+|(?P<quote>>)|[ \t]*(?P<item>[-*+]|\d{1,9}[.)])[ \t]+")

# How deep quotes may be nested; deeper ones are shown at this depth.
MAX_QUOTE_DEPTH = 16
_ONE_QUOTE, _ALL_QUOTES = re.compile(r"^ *> ?"), re.compile(r"^[ >]+")

STYLE = """
:root{color-scheme:light dark;--bg:#fbfaf7;--ink:#22252b;--dim:#6b717c;--line:#d9d5cb;--panel:#fff;
--you:#2563c9;--good:#0b8060;--bad:#c62f3b}
@media(prefers-color-scheme:dark){:root{--bg:#14161a;--ink:#e4e3de;--dim:#8d939e;
--line:#343943;--panel:#1c1f25;--you:#7fb0ff;--good:#5fd3ac;--bad:#ff7d86}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:48rem;padding:1.5rem 1rem 4rem;background:var(--bg);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:break-word}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .25rem}
header p,footer{color:var(--dim);font-size:.85rem;margin:.1rem 0}
article{margin:1.5rem 0}
article>h2{font-size:.8rem;letter-spacing:.04em;text-transform:uppercase;color:var(--dim);margin:0 0 .3rem}
.user{border-left:3px solid var(--you);padding-left:.9rem}
.user>h2{color:var(--you)}
details{margin:.6rem 0;background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.45rem .8rem}
summary{cursor:pointer}
.thought{color:var(--dim)}
pre,code{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.7rem .9rem;overflow-x:auto}
details pre{border:0;padding:.4rem 0 0;margin:0;background:none}
.green{color:var(--good)}.red,.failed{color:var(--bad)}.dim{color:var(--dim)}
blockquote{margin:.6rem 0;padding-left:.9rem;border-left:3px solid var(--line);color:var(--dim)}
.table{overflow-x:auto}
table{border-collapse:collapse}
th,td{border:1px solid var(--line);padding:.3rem .6rem;text-align:left;vertical-align:top}
p{margin:.6rem 0}ul,ol{padding-left:1.4rem}
@media print{body{max-width:none}details{break-inside:avoid}}
"""


def render_html(summary: Summary, lines: list[bytes], *, thoughts: bool = False) -> str:
    """Return a session as one HTML page."""
    title = escape(_title(summary))
    body = "\n".join(_html_item(item) for item in _items(lines, thoughts))
    about = "".join(f"<p>{escape(line)}</p>" for line in _about(summary))
    digest = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<header><h1>{title}</h1>{about}</header>\n<main>\n{body}\n</main>\n"
        f"</body>\n</html>\n"
    )


def render_markdown(summary: Summary, lines: list[bytes], *, thoughts: bool = False) -> str:
    """Return a session as Markdown."""
    parts = [f"# {_title(summary)}", "\n".join(f"- {line}" for line in _about(summary))]
    for item in _items(lines, thoughts):
        if isinstance(item, Message):
            parts += [f"## {_SPEAKERS[item.role]}", _message_text(item)]
        else:
            parts.append(f"- {sanitize_line(tool_call_line(item).text)}")
            for kind, text in _call_parts(item):
                fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
                parts.append(f"{fence}{kind}\n{text}\n{fence}")
    return "\n\n".join(parts) + "\n"


def _title(summary: Summary) -> str:
    return sanitize_line(summary.name or summary.title or summary.session_id)


def _about(summary: Summary) -> list[str]:
    """Return the lines below the title."""
    when = f"{summary.updated_at[:16].replace('T', ' ')} UTC, {format_count(summary.turns, 'turn')}"
    known = {"Agent": summary.agent, "Folder": summary.cwd, "Last change": when}
    return [f"{name}: {sanitize_line(value)}" for name, value in known.items() if value]


def _items(lines: list[bytes], thoughts: bool) -> Iterator[Message | ToolCall]:
    for item in build_transcript(lines):
        if isinstance(item, Message) and ((item.role == "thought" and not thoughts) or not _message_text(item)):
            continue
        if isinstance(item, Message | ToolCall):
            yield item


def _message_text(message: Message) -> str:
    return sanitize("".join(map(block_text, message.content)).strip())


def _call_parts(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Yield what a tool call shows: kinds of code blocks and texts."""
    for block in call.content:
        if isinstance(block, Diff):
            old = block.old_text if isinstance(block.old_text, str) else None
            changed = "\n".join(line.text for line in diff_lines(old, block.new_text, MAX_DIFF_LINES))
            yield "diff", sanitize(f"{block.path}\n{changed}")
        elif isinstance(block, ToolCallBlock) and (text := content_text(block.content).strip()):
            yield "", sanitize(text)


def _html_item(item: Message | ToolCall) -> str:
    if isinstance(item, ToolCall):
        return _html_call(item)
    body = markdown_to_html(_message_text(item))
    if item.role == "thought":
        return f'<details class="thought"><summary>Thought</summary>{body}</details>'
    return f'<article class="{item.role}"><h2>{_SPEAKERS[item.role]}</h2>{body}</article>'


def _html_call(call: ToolCall) -> str:
    shown = tool_call_line(call)
    parts = []
    is_change = False
    for kind, text in _call_parts(call):
        is_change |= kind == "diff"
        rows = []
        for line in text.split("\n"):
            style = {"+": "green", "-": "red"}.get(line[:1], "") if kind == "diff" else ""
            rows.append(f'<span class="{style}">{escape(line)}</span>' if style else escape(line))
        parts.append("<pre>" + "\n".join(rows) + "</pre>")
    state = "failed" if call.status in ("failed", "denied") else "call"
    opened = " open" if is_change else ""
    title = escape(sanitize_line(shown.text))
    return f'<details class="{state}"{opened}><summary>{title}</summary>{"".join(parts)}</details>'


# --- Markdown -------------------------------------------------------------------------------------------------


def markdown_to_html(text: str, quote_depth: int = 0) -> str:
    """Return the Markdown of an agent as HTML; what is not understood stays as text."""
    lines = text.split("\n")
    out: list[str] = []
    at = 0
    while at < len(lines):
        found = _BLOCK.match(lines[at])
        end = at + 1
        if found and found["fence"]:
            while end < len(lines) and not lines[end].strip().startswith(found["fence"]):
                end += 1
            out.append(f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>")
            end += 1
        elif found and found["level"]:
            level = min(6, len(found["level"]) + 2)
            out.append(f"<h{level}>{_inline(lines[at][found.end() :].rstrip('# '))}</h{level}>")
        elif found and (found["item"] or found["quote"]):
            end = _end_of(lines, end, lambda line: bool(line.strip()))
            out.append(_quote(lines[at:end], quote_depth) if found["quote"] else _list(lines[at:end]))
        elif lines[at].lstrip().startswith("|") and end < len(lines) and TABLE_RULE.match(lines[end]):
            end = _end_of(lines, end, lambda line: line.lstrip().startswith("|"))
            out.append(_table([lines[at], *lines[at + 2 : end]]))
        elif lines[at].strip():
            end = _end_of(lines, end, lambda line: bool(line.strip()) and not _BLOCK.match(line))
            out.append(f"<p>{'<br>'.join(map(_inline, lines[at:end]))}</p>")
        at = end
    return "\n".join(out)


def _end_of(lines: list[str], at: int, belongs: Any) -> int:
    while at < len(lines) and belongs(lines[at]):
        at += 1
    return at


def _quote(lines: list[str], depth: int) -> str:
    marks = _ONE_QUOTE if depth < MAX_QUOTE_DEPTH else _ALL_QUOTES
    return (
        f"<blockquote>{markdown_to_html(chr(10).join(marks.sub('', line) for line in lines), depth + 1)}</blockquote>"
    )


def _list(lines: list[str]) -> str:
    """Return a list; deeper items are indented by their text, not nested."""
    tag = "ul" if re.match(r"[ \t]*[-*+]", lines[0]) else "ol"
    items: list[str] = []
    for line in lines:
        if (found := _BLOCK.match(line)) and found["item"]:
            items.append(_inline(line[found.end() :]))
        else:
            items[-1] += f"<br>{_inline(line.strip())}"
    return f"<{tag}>{''.join(f'<li>{item}</li>' for item in items)}</{tag}>"


def _table(rows: list[str]) -> str:
    head, *body = [[_inline(cell) for cell in split_cells(row)] for row in rows]
    cells = "".join(f"<th>{cell}</th>" for cell in head)
    more = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body)
    return f'<div class="table"><table><tr>{cells}</tr>{more}</table></div>'


def _inline(text: str) -> str:
    out = []
    for piece, style in parse_inline(text):
        tags = [_TAGS[word] for word in style.split() if word in _TAGS]
        opened, closed = "".join(f"<{tag}>" for tag in tags), "".join(f"</{tag}>" for tag in reversed(tags))
        out.append(f"{opened}{escape(piece)}{closed}")
    return "".join(out)
