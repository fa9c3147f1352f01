"""Patches in Git's format: what is written Git applies, and what Git writes is read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialect.narrow import git_patch
from dragoman.dialect.narrow.git_patch import Hunk, MalformedPatch, parse_patch, patch_of, quote_path, unquote_path

LINES = st.lists(
    st.sampled_from(
        ["a\n", "b\n", "c\r\n", "\n", "é\u2028\n", "@@ -1 +1 @@\n", "--- x\n", "diff --git x x\n", "\\ N\n"]
    )
)
ENDS = st.sampled_from(["", "end", "-", "+++ /x"])
TEXTS = st.builds(lambda lines, end: "".join(lines) + end, LINES, ENDS)
PATHS = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=12)


def apply_hunks(hunks: list[Hunk], text: str) -> str:
    """The text after the change; every hunk must be where it says it is."""
    lines = git_patch._lines(text)
    out: list[str] = []
    position = 0
    for hunk in hunks:
        start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        out += lines[position:start]
        assert len(out) == (hunk.new_start - 1 if hunk.new_lines else hunk.new_start)
        assert lines[start : start + len(hunk.old_lines)] == hunk.old_lines
        out += hunk.new_lines
        position = start + len(hunk.old_lines)
    return "".join(out + lines[position:])


@given(old=TEXTS, new=TEXTS, path=PATHS)
def test_a_patch_of_two_texts_turns_one_into_the_other(old: str, new: str, path: str) -> None:
    patch = patch_of(f"/work/{path}", old, new)
    if old == new:
        assert patch == ""
        return
    [section] = parse_patch(patch)
    assert (section.operation, section.path) == ("modify", f"/work/{path}")
    assert apply_hunks(section.hunks, old) == new


@given(new=TEXTS, path=PATHS)
def test_a_patch_of_a_new_file_has_its_whole_text(new: str, path: str) -> None:
    [section] = parse_patch(patch_of(f"/work/{path}", None, new))
    assert (section.operation, section.new_path) == ("add", f"/work/{path}")
    assert "".join(hunk.new_text for hunk in section.hunks) == new
    assert all(not hunk.old_lines for hunk in section.hunks)


@given(PATHS)
def test_a_quoted_path_is_read_as_it_was(path: str) -> None:
    assert unquote_path(quote_path(path)) == path
    assert all(32 <= ord(letter) < 127 for letter in quote_path(path))


def test_the_patch_of_an_edit_has_three_lines_around_it() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    new = old.replace("5\n", "five\n", 1).replace("20\n", "twenty")
    assert patch_of("/work/a b.txt", old, new) == (
        "diff --git /work/a b.txt /work/a b.txt\n--- /work/a b.txt\t\n+++ /work/a b.txt\t\n"
        "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        "@@ -17,4 +17,4 @@\n 17\n 18\n 19\n-20\n+twenty\n\\ No newline at end of file\n"
    )


def test_an_unusual_path_is_quoted_as_git_does() -> None:
    assert patch_of('/w/ä"\n', None, "x\n") == (
        'diff --git "/w/\\303\\244\\"\\n" "/w/\\303\\244\\"\\n"\nnew file mode 100644\n'
        '--- /dev/null\n+++ "/w/\\303\\244\\"\\n"\n@@ -0,0 +1 @@\n+x\n'
    )


def test_a_change_of_many_lines_is_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_patch, "MAX_COMPARISONS", 3)
    [section] = parse_patch(patch_of("/w/f", "a\nb\nc\nd\n", "a\nx\nc\ny\n"))
    [hunk] = section.hunks
    assert (hunk.old_text, hunk.new_text) == ("a\nb\nc\nd\n", "a\nx\nc\ny\n")


CASES: dict[str, tuple[str, str | None, str]] = {
    "edit": ("src/one.py", "a\nb\nc\n", "a\nB\nc\n"),
    "new": ("src/ö ä.py", None, "hello\nthere"),
    "new and empty": ("empty", None, ""),
    "filled": ("filled", "", "text\n"),
    "emptied": ("emptied", "text\nmore", ""),
    "newline added": ("tab\tname", "x", "x\n"),
    "far apart": (
        "long",
        "\n".join(map(str, range(99))),
        "\n".join(map(str, [*range(40), "x", *range(41, 98), "end"])),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.item("V2-23")
def test_git_applies_what_is_written(tmp_path: Path, name: str) -> None:
    path, old, new = CASES[name]
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    if old is not None:
        file.write_bytes(old.encode())
    # Git removes the first part of absolute paths, which is empty.
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    patch = patch_of(f"/{path}", old, new)
    done = subprocess.run(command, cwd=tmp_path, input=patch.encode(), capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert file.read_bytes() == new.encode()


def test_what_git_writes_is_read(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        settings = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "core.autocrlf=false"]
        done = subprocess.run(
            ["git", *settings, *words], cwd=tmp_path, capture_output=True, timeout=30, check=True, text=True
        )
        return done.stdout

    git("init", "-q")
    texts = {"keep": "1\n2\n3\n", "moved": "a\nb\nc\nd\ne\nf\n", "gone": "x\ny\n", "ä ö": "1\n", "binary": "\0\1"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "keep").write_text("1\n2\n3")
    (tmp_path / "moved").rename(tmp_path / "new name")
    (tmp_path / "gone").unlink()
    (tmp_path / "ä ö").write_text("2\n")
    (tmp_path / "binary").write_bytes(b"\0\2")
    (tmp_path / "same").write_text("1\n2\n3\n")
    git("add", "-A")
    patch = git("diff", "--cached", "-M", "-C", "--find-copies-harder", "--src-prefix=/w/", "--dst-prefix=/w/")
    found = {section.path: section for section in parse_patch(patch)}
    assert {path: section.operation for path, section in found.items()} == {
        "/w/keep": "modify", "new name": "move", "/w/gone": "delete", "/w/ä ö": "modify", "/w/binary": "modify",
        "same": "copy",
    }  # fmt: skip
    assert found["new name"].old_path == "moved"
    assert found["/w/binary"].is_binary
    assert found["/w/gone"].hunks == [Hunk(1, ["x\n", "y\n"], 0, [])]
    assert found["/w/keep"].hunks == [Hunk(1, ["1\n", "2\n", "3\n"], 1, ["1\n", "2\n", "3"])]


def test_paths_with_spaces_and_no_hunks_are_found_in_the_header() -> None:
    [section] = parse_patch("diff --git /w/a b /w/a b\nold mode 100644\nnew mode 100755\n")
    assert (section.old_path, section.new_path, section.hunks) == ("/w/a b", "/w/a b", [])


@pytest.mark.parametrize(
    "text", ["", "hello", "diff --git /a /a\n@@ -1,2 +1 @@\n-x\n", "diff --git /a /a\n@@ nonsense\n", 'diff --git "/a']
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(MalformedPatch):
        parse_patch(text)


@settings(max_examples=200)
@given(st.text(st.sampled_from('diff --git /a"\\\n@+- 019,')))
def test_any_text_is_read_or_refused(text: str) -> None:
    for start in ("", "diff --git /a /a\n"):
        try:
            assert parse_patch(start + text)
        except MalformedPatch:
            pass
