"""A session as a document for people."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dragoman.cli.sessions.transcript_file import MAX_QUOTE_DEPTH, markdown_to_html
from tests.cli.process import in_process, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a session named `tale`."""
    (tmp_path / "notes.txt").write_text("the old text\n")
    assert run("/edit notes.txt old <new>", "--yes", "--session", "tale", cwd=tmp_path).returncode == 0
    return tmp_path


def test_a_session_becomes_a_page_without_scripts(folder: Path) -> None:
    ran = in_process("sessions", "export", "tale", "tale.html", "--html", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    page = (folder / "tale.html").read_text()
    assert stat.S_IMODE((folder / "tale.html").stat().st_mode) == 0o600
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "<title>tale</title>" in page
    assert '<article class="user"><h2>You</h2><p>/edit notes.txt old &lt;new&gt;</p></article>' in page
    assert '<span class="red">- the old text</span>\n<span class="green">+ the &lt;new&gt; text</span>' in page
    assert "<code>notes.txt</code>" in page


def test_a_session_becomes_markdown(folder: Path) -> None:
    text = in_process("sessions", "export", "tale", "--markdown", cwd=folder).stdout
    assert text.startswith("# tale\n\n- Agent: Everything\n- Folder: ")
    assert "## You\n\n/edit notes.txt old <new>\n" in text
    assert "```diff\n" in text
    assert "\n- the old text\n+ the <new> text\n```" in text
    both = in_process("sessions", "export", "tale", "--markdown", "--html", cwd=folder)
    assert (both.returncode, "choose one of" in both.stderr) == (2, True)


def test_options_can_stand_between_the_session_and_its_file(folder: Path) -> None:
    for arguments in (
        ["--html", "a.html"],
        ["--thoughts", "--html", "b.html", "--force"],
        ["--html", "--out", "c.html"],
    ):
        ran = in_process("sessions", "export", "tale", *arguments, cwd=folder)
        assert (ran.returncode, ran.stderr) == (0, "")
    assert (folder / "a.html").read_text() == (folder / "c.html").read_text()
    store = str(folder / "state" / "dragoman" / "sessions.db")
    assert in_process("sessions", "fork", "tale", "--store", store, "copy", cwd=folder).returncode == 0
    assert in_process("sessions", "rename", "copy", "--json", "other", cwd=folder).returncode == 0
    twice = in_process("sessions", "export", "tale", "d.html", "--out", "e.html", cwd=folder)
    assert (twice.returncode, "give the output file once" in twice.stderr) == (2, True)


@pytest.mark.parametrize(
    ("file", "beginning", "note"),
    [
        ("tale.html", "<!DOCTYPE html>", " as html, as .html says"),
        ("tale.MD", "# tale\n", " as markdown, as .md says"),
        ("tale.session", "{", ""),
    ],
)
def test_the_suffix_of_the_file_chooses_the_form(folder: Path, file: str, beginning: str, note: str) -> None:
    ran = in_process("sessions", "export", "tale", file, cwd=folder)
    assert (folder / file).read_text().lower().startswith(beginning.lower())
    assert note in ran.stdout
    assert (" says; " in ran.stdout) == bool(note)


def test_the_sessions_of_another_store_are_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = folder / "state" / "dragoman" / "sessions.db"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "other"))
    assert "no sessions" in in_process("sessions", cwd=folder).stdout
    assert in_process("sessions", "--store", str(store), cwd=folder).stdout.startswith("tale ")
    missing = in_process("sessions", "--store", "nosuch.db", cwd=folder)
    assert (missing.returncode, "--store: there is no file" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# One\ntext\n\nmore", "<h3>One</h3>\n<p>text</p>\n<p>more</p>"),
        ("- a\n- **b**", "<ul><li>a</li><li><strong>b</strong></li></ul>"),
        ("1. a\n   and on\n2. b", "<ol><li>a<br>and on</li><li>b</li></ol>"),
        ("```py\nif a < b:\n```\nend", "<pre><code>if a &lt; b:</code></pre>\n<p>end</p>"),
        ("> said", "<blockquote><p>said</p></blockquote>"),
        (
            "| a | b |\n|---|---|\n| 1 | 2 |",
            '<div class="table"><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></div>',
        ),
        ("[x](javascript:alert(1))", "<p><u>x</u><small> (javascript:alert(1))</small></p>"),
        ("<img src=x>", "<p>&lt;img src=x&gt;</p>"),
    ],
)
def test_markdown_becomes_html_and_everything_else_is_text(text: str, html: str) -> None:
    assert markdown_to_html(text) == html


def test_quotes_of_any_depth_become_html() -> None:
    html = markdown_to_html(">" * 2000 + " deep\n" + "> " * 2000 + "deeper")
    assert html.count("<blockquote>") == html.count("</blockquote>") == MAX_QUOTE_DEPTH + 1
    assert "deep" in html
    assert "deeper" in html
