"""Files: text is read and written exactly, also by lines, and never outside the roots."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace import files as files_module
from dragoman.workspace.files import Files, LineRange, WriteResult
from dragoman.workspace.paths import PathTarget


def refusal(call: Callable[[], object]) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        call()
    return caught.value


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("canary")
    (tmp_path / "inside").mkdir()
    return tmp_path / "inside"


@pytest.fixture
def files(inside: Path) -> Files:
    return Files([str(inside)])


THREE = "line one\nline two\nline three\n"


@pytest.mark.item("001-09")
@pytest.mark.parametrize(
    ("content", "line", "limit", "page"),
    [
        (THREE, None, None, LineRange(THREE, 3, False)),
        (THREE, 2, 1, LineRange("line two", 3, True)),
        (THREE, 1, 2, LineRange("line one\nline two", 3, True)),
        (THREE, None, 1, LineRange("line one", 3, True)),
        (THREE, 0, 1, LineRange("line one", 3, True)),
        (THREE, 3, 1, LineRange("line three", 3, False)),
        (THREE, 3, 2, LineRange("line three\n", 3, False)),
        (THREE, 2, None, LineRange("line two\nline three\n", 3, False)),
        (THREE, None, 2000, LineRange(THREE, 3, False)),
        (THREE, 4, 1, LineRange("", 3, False)),
        (THREE, 5, 1, LineRange("", 3, False)),
        (THREE, 4_294_967_295, 4_294_967_295, LineRange("", 3, False)),
        (THREE, 2, 0, LineRange("", 3, True)),
        ("a\nb", 2, 1, LineRange("b", 2, False)),
        ("a\nb", 1, 2, LineRange("a\nb", 2, False)),
        ("a\r\nb\r\nc", 1, 2, LineRange("a\r\nb", 3, True)),
        ("\n\n", 1, 1, LineRange("", 2, True)),
        ("", None, None, LineRange("", 0, False)),
        ("", 1, 5, LineRange("", 0, False)),
        ("a\u2028b\x0cc\rd\n", 1, 1, LineRange("a\u2028b\x0cc\rd", 1, False)),
    ],
)
def test_lines_are_counted_from_one_and_selected_without_the_last_newline(
    files: Files, inside: Path, content: str, line: int | None, limit: int | None, page: LineRange
) -> None:
    (inside / "f").write_bytes(content.encode())
    assert files.read_lines(str(inside / "f"), line, limit) == page
    assert files.read_text(str(inside / "f"), line, limit) == page.text
    assert files.read_lines_at_once(str(inside / "f"), line, limit) in (page, None)  # None: the system cannot tell


def test_what_is_not_in_memory_is_left_to_a_thread(files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(inside / "f")
    (inside / "f").write_text(THREE)

    def would_block(*_: object) -> int:
        raise BlockingIOError

    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", would_block)
        assert files.read_lines_at_once(path) is None
    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", lambda *_: 3)  # a part of it
        assert files.read_lines_at_once(path) is None
    with monkeypatch.context() as patched:
        patched.setattr(files_module, "_NOWAIT", None)  # another system
        assert files.read_lines_at_once(path) is None
    with monkeypatch.context() as patched:
        patched.setattr(files_module, "MAX_AT_ONCE", len(THREE) - 1)
        assert files.read_lines_at_once(path) is None
    assert files.read_lines(path).text == THREE


@pytest.mark.skipif(sys.platform != "linux", reason="file leases are Linux's")
def test_a_file_that_is_being_written_is_not_waited_for_at_once(files: Files, inside: Path) -> None:
    import fcntl

    path = inside / "f"
    path.write_text(THREE)
    with path.open("r+") as writer:
        fcntl.fcntl(writer, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(writer, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert files.read_lines_at_once(str(path)) is None
        fcntl.fcntl(writer, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    assert files.read_lines_at_once(str(path)) in (LineRange(THREE, 3, False), None)


def test_a_read_at_once_is_refused_for_the_same_reasons(files: Files, inside: Path) -> None:
    (inside / "link").symlink_to(inside.parent / "outside" / "file")
    os.mkfifo(inside / "pipe")
    (inside / "large").write_bytes(b"x" * 100)
    small = Files([str(inside)], max_bytes=99)
    for each, name in [(files, "link"), (files, "pipe"), (files, "missing"), (files, "."), (small, "large")]:
        path = str(inside / name)
        error = refusal(partial(each.read_lines, path))
        assert str(refusal(partial(each.read_lines_at_once, path))) == str(error)


@pytest.mark.parametrize(("line", "limit"), [(-1, None), (None, -1)])
def test_negative_lines_are_invalid(files: Files, inside: Path, line: int | None, limit: int | None) -> None:
    error = refusal(lambda: files.read_text(str(inside / "f"), line, limit))
    assert error.kind == Kind.INVALID_PARAMS


@pytest.mark.parametrize("text", ["", "a\r\nb\rc\n", "\ufeffmarked", "tab\tand\x00nul", "日本語🙂\n", "\u2028"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "UTF-16-LE"])
def test_text_is_read_exactly_as_it_was_written(files: Files, inside: Path, text: str, encoding: str) -> None:
    path = str(inside / "f")
    size = len(text.encode(encoding))
    assert files.write_text(path, text, encoding) == WriteResult(size, created=True)
    assert (inside / "f").read_bytes() == text.encode(encoding)
    assert files.read_text(path, encoding=encoding) == text
    assert files.write_text(path, text, encoding) == WriteResult(size, created=False)


def test_another_encoding_is_used_when_named(files: Files, inside: Path) -> None:
    files.write_text(str(inside / "f"), "grün", "latin-1")
    assert (inside / "f").read_bytes() == b"gr\xfcn"
    assert files.read_text(str(inside / "f"), encoding="iso-8859-1") == "grün"
    error = refusal(lambda: files.read_text(str(inside / "f")))
    assert error.kind == Kind.INVALID_PARAMS
    assert "utf-8" in error.message


@pytest.mark.parametrize("encoding", ["klingon", "hex", "zlib", "", "a\0b", "ascii"])
def test_text_that_the_encoding_cannot_express_is_refused_and_nothing_is_written(
    files: Files, inside: Path, encoding: str
) -> None:
    error = refusal(lambda: files.write_text(str(inside / "f"), "grün", encoding))
    assert error.kind == Kind.INVALID_PARAMS
    assert error.data == {"encoding": encoding}
    assert os.listdir(inside) == []
    (inside / "f").write_text("grün")
    assert refusal(lambda: files.read_text(str(inside / "f"), encoding=encoding)).kind == Kind.INVALID_PARAMS


def test_a_lone_surrogate_is_never_written(files: Files, inside: Path) -> None:
    error = refusal(lambda: files.write_text(str(inside / "f"), "cut \ud83d"))
    assert error.kind == Kind.INVALID_PARAMS
    assert os.listdir(inside) == []


def test_a_new_file_has_the_mode_of_the_umask_and_an_old_one_keeps_its_own(files: Files, inside: Path) -> None:
    umask = os.umask(0o027)
    try:
        files.write_text(str(inside / "new"), "x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((inside / "new").stat().st_mode) == 0o640
    for mode in (0o755, 0o600, 0o666):
        (inside / "new").chmod(mode)
        files.write_text(str(inside / "new"), "y")
        assert stat.S_IMODE((inside / "new").stat().st_mode) == mode


def test_a_file_is_replaced_atomically_and_no_other_file_is_left(files: Files, inside: Path) -> None:
    (inside / "f").write_text("old")
    with (inside / "f").open() as reader:
        files.write_text(str(inside / "f"), "new")
        assert reader.read() == "old"
    assert os.listdir(inside) == ["f"]


def test_a_write_that_fails_leaves_nothing_behind(files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inside / "f").write_text("old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for path in ("f", "g"):
        for overwrite in (True, False):
            with pytest.raises(ProtocolError):
                files.write_text(str(inside / path), "new", overwrite=overwrite)
    assert os.listdir(inside) == ["f"]
    assert (inside / "f").read_text() == "old"


def test_writing_breaks_a_hard_link_to_a_file_outside(files: Files, inside: Path) -> None:
    outside = inside.parent / "outside" / "file"
    os.link(outside, inside / "f")
    files.write_text(str(inside / "f"), "changed")
    assert outside.read_text() == "canary"
    assert (inside / "f").read_text() == "changed"


def test_writing_to_a_link_inside_writes_its_target_and_keeps_the_link(files: Files, inside: Path) -> None:
    (inside / "sub").mkdir()
    (inside / "sub" / "real").write_text("old")
    (inside / "link").symlink_to("sub/real")
    assert files.write_text(str(inside / "link"), "new") == WriteResult(3, created=False)
    assert (inside / "link").is_symlink()
    assert (inside / "sub" / "real").read_text() == "new"
    (inside / "dangling").symlink_to(inside / "sub" / "fresh")
    assert files.write_text(str(inside / "dangling"), "new") == WriteResult(3, created=True)
    assert (inside / "sub" / "fresh").read_text() == "new"


@pytest.mark.parametrize("target", ["../outside/file", "../outside/new", "/dev/null"])
@pytest.mark.parametrize("create_directories", [True, False])
def test_a_link_outside_is_neither_read_nor_written(
    files: Files, inside: Path, target: str, create_directories: bool
) -> None:
    (inside / "link").symlink_to(target)
    path = str(inside / "link")
    assert refusal(lambda: files.read_text(path)).kind == Kind.ACCESS_DENIED
    write = refusal(lambda: files.write_text(path, "x", create_directories=create_directories))
    assert write.kind == Kind.ACCESS_DENIED
    assert (inside.parent / "outside" / "file").read_text() == "canary"
    assert os.listdir(inside.parent / "outside") == ["file"]


def test_pipes_sockets_and_folders_are_refused_without_waiting(
    files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(inside / "fifo")
    (inside / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(inside)  # the system allows a socket only a short path
        server.bind("socket")
        for name in ("fifo", "socket", "folder", "."):
            path = str(inside / name)
            assert refusal(partial(files.read_text, path)).kind == Kind.INVALID_PARAMS, name
            assert refusal(partial(files.write_text, path, "x")).kind == Kind.INVALID_PARAMS, name
    assert stat.S_ISFIFO((inside / "fifo").stat().st_mode)


def test_only_regular_files_are_opened(files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(inside / "fifo")
    opened: list[str] = []
    monkeypatch.setattr(PathTarget, "open", lambda spot, *_: opened.append(spot.name))
    assert refusal(lambda: files.read_text(str(inside / "fifo"))).kind == Kind.INVALID_PARAMS
    assert refusal(lambda: files.write_text(str(inside / "fifo"), "x")).kind == Kind.INVALID_PARAMS
    assert opened == []


def test_a_file_that_becomes_a_pipe_is_refused_without_waiting(
    files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside / "file").write_text("")
    before = (inside / "file").stat()
    os.mkfifo(inside / "fifo")
    monkeypatch.setattr(PathTarget, "stat", lambda spot: before)
    assert refusal(lambda: files.read_text(str(inside / "fifo"))).kind == Kind.INVALID_PARAMS
    assert refusal(lambda: files.write_text(str(inside / "fifo"), "x")).kind == Kind.INVALID_PARAMS


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no device to refuse")
def test_a_device_inside_the_roots_is_refused() -> None:
    files = Files(["/dev"])
    assert refusal(lambda: files.read_text("/dev/zero")).kind == Kind.INVALID_PARAMS
    assert refusal(lambda: files.write_text("/dev/zero", "x")).kind == Kind.INVALID_PARAMS


def test_too_much_text_is_neither_read_nor_written(inside: Path) -> None:
    files = Files([str(inside)], max_bytes=10)
    files.write_text(str(inside / "f"), "0123456789")
    assert files.read_text(str(inside / "f")) == "0123456789"
    assert refusal(lambda: files.write_text(str(inside / "f"), "0123456789a")).kind == Kind.TOO_LARGE
    (inside / "f").write_text("0123456789a")
    error = refusal(lambda: files.read_text(str(inside / "f"), 1, 1))
    assert error.kind == Kind.TOO_LARGE
    assert error.data == {"size": 11, "limit": 10}


def test_a_file_without_a_size_is_still_bounded() -> None:
    if not os.path.exists("/proc/cpuinfo"):
        pytest.skip("no file without a size")
    assert os.stat("/proc/cpuinfo").st_size == 0
    assert refusal(lambda: Files(["/proc"], max_bytes=10).read_text("/proc/cpuinfo")).kind == Kind.TOO_LARGE


def test_an_existing_file_is_kept_without_overwrite(files: Files, inside: Path) -> None:
    path = str(inside / "f")
    assert files.write_text(path, "first", overwrite=False) == WriteResult(5, created=True)
    error = refusal(lambda: files.write_text(path, "second", overwrite=False))
    assert error.kind == Kind.INVALID_PARAMS
    assert "exists already" in error.message
    assert files.read_text(path) == "first"


def test_missing_folders_are_created_only_with_the_option(files: Files, inside: Path) -> None:
    path = str(inside / "a" / "b" / "f")
    error = refusal(lambda: files.write_text(path, "x"))
    assert error.kind == Kind.RESOURCE_NOT_FOUND
    assert f"no folder {inside}/a" in error.message
    assert os.listdir(inside) == []
    files.write_text(path, "x", create_directories=True)
    assert files.read_text(path) == "x"


def test_the_error_for_a_missing_file_has_its_uri(files: Files, inside: Path) -> None:
    error = refusal(lambda: files.read_text(str(inside / "AGENTS.md")))
    assert error.kind == Kind.RESOURCE_NOT_FOUND
    assert error.data == {"uri": f"file://{inside}/AGENTS.md"}


def test_protected_files_are_read_but_never_written(inside: Path) -> None:
    (inside / "own").mkdir()
    (inside / "x").mkdir()
    (inside / "own" / "policy.toml").write_text("strict")
    (inside / "way").symlink_to("own")
    files = Files([str(inside)], protected=[str(inside / "own"), str(inside / "token")])
    for path in ("own/policy.toml", "own/new", "way/policy.toml", "token", "x/../own/policy.toml"):
        error = refusal(partial(files.write_text, str(inside / path), "loose"))
        assert error.kind == Kind.ACCESS_DENIED
    assert files.read_text(str(inside / "way" / "policy.toml")) == "strict"
    assert files.write_text(str(inside / "owner"), "x").created


def test_a_protected_name_is_protected_in_a_root_and_not_above_it(tmp_path: Path) -> None:
    work = tmp_path / ".ours" / "work"
    (work / "sub" / ".ours").mkdir(parents=True)
    files = Files([str(work)], protected=[".ours"])
    assert files.write_text(str(work / "file"), "x").created
    for path in (work / "sub" / ".ours" / "file", work / "sub" / ".OURS"):
        assert refusal(partial(files.write_text, str(path), "x")).kind == Kind.ACCESS_DENIED
    itself = Files([str(work.parent)], protected=[".ours"])
    assert refusal(partial(itself.write_text, str(work.parent / "file"), "x")).kind == Kind.ACCESS_DENIED


def test_a_read_only_file_is_not_changed(files: Files, inside: Path) -> None:
    (inside / "f").write_text("old")
    (inside / "f").chmod(0o444)
    if os.access(inside / "f", os.W_OK):
        pytest.skip("this user may write everything")
    assert refusal(lambda: files.write_text(str(inside / "f"), "new")).kind == Kind.ACCESS_DENIED
    assert (inside / "f").read_text() == "old"


def test_relative_paths_start_at_the_base(inside: Path) -> None:
    files = Files([str(inside)], base=str(inside))
    files.write_text("f", "x")
    assert files.read_text(str(inside / "f")) == "x"
    assert files.resolve("./f") == str(inside / "f")
    assert refusal(lambda: files.read_text("../outside/file")).kind == Kind.ACCESS_DENIED


def test_a_batch_is_refused_whole_if_a_file_is_not_as_expected(tmp_path: Path) -> None:
    files = Files([str(tmp_path)])
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("2")
    expected = {str(one): "1", str(two): "changed by another program"}
    with pytest.raises(ProtocolError, match="two changed meanwhile; nothing was written") as caught:
        files.write_many([(str(one), "new"), (str(two), "new")], expected=expected)
    assert caught.value.kind == Kind.INVALID_STATE
    assert (one.read_text(), two.read_text(), len(list(tmp_path.iterdir()))) == ("1", "2", 2)
    two.unlink()
    with pytest.raises(ProtocolError, match="changed meanwhile"):
        files.write_many([(str(one), "new"), (str(two), "new")], expected={str(one): "1", str(two): "2"})
    assert (one.read_text(), two.exists()) == ("1", False)
    files.write_many([(str(one), "new")], expected={str(one): "1"})
    assert one.read_text() == "new"
