"""Bytecode is made at install time and kept by the hash of its source; what a package brings is never kept."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.registry.fault import RegistryFault
from dragoman.registry.install import bytecode
from dragoman.registry.tools.find import Program

PYTHON = Program(os.path.realpath(sys.executable), platform.python_version())
READ = [sys.base_prefix, sys.prefix]


def make_files(folder: Path, source: str, time: int) -> Path:
    """Make the files of an installation with one module; return the module."""
    module = folder / "lib" / "greeting.py"
    module.parent.mkdir(parents=True)
    module.write_text(source)
    os.utime(module, (time, time))
    return module


def compiled(module: Path) -> Path:
    """Return where the bytecode of a module is."""
    return Path(importlib.util.cache_from_source(str(module)))


def says(module: Path) -> str:
    """Return what a program prints that imports the module."""
    command = [PYTHON.path, "-I", "-B", "-c", f"import sys; sys.path[:0] = [{str(module.parent)!r}]; import greeting"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_bytecode_is_made_once_for_the_same_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = str(tmp_path / "cache")
    first = make_files(tmp_path / "first", "print('hello')\n", 1_700_000_000)
    bytecode.compile_modules(str(tmp_path / "first"), PYTHON, READ, cache)
    assert compiled(first).exists()
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == ["lib"]

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(bytecode, "_compile", refuse)
    second = make_files(tmp_path / "second", "print('hello')\n", 1_700_000_999)
    bytecode.compile_modules(str(tmp_path / "second"), PYTHON, READ, cache)
    data = compiled(second).read_bytes()
    assert data[:4] == importlib.util.MAGIC_NUMBER
    assert struct.unpack("<III", data[4:16]) == (0, 1_700_000_999, second.stat().st_size)
    assert data[16:] == compiled(first).read_bytes()[16:]
    assert says(second) == "hello\n"


def stolen_bytecode(folder: Path, *, flags: int, source: Path) -> bytes:
    """Return bytecode of other code, which Python takes for that of a source."""
    other = folder / "other.py"
    other.write_text("print('stolen')\n")
    subprocess.run([PYTHON.path, "-m", "py_compile", str(other)], check=True, timeout=60)
    status = source.stat()
    return (
        importlib.util.MAGIC_NUMBER
        + struct.pack("<III", flags, int(status.st_mtime), status.st_size)
        + (compiled(other).read_bytes()[16:])
    )


@pytest.mark.parametrize("flags", [0, 1])  # 1: Python runs it without a look at the source
def test_bytecode_that_a_package_brings_is_not_kept(tmp_path: Path, flags: int) -> None:
    source, cache = "print('hello')\n", str(tmp_path / "cache")
    module = make_files(tmp_path / "evil", source, 1_700_000_000)
    compiled(module).parent.mkdir()
    compiled(module).write_bytes(stolen_bytecode(tmp_path, flags=flags, source=module))
    assert says(module) == "stolen\n"
    bytecode.compile_modules(str(tmp_path / "evil"), PYTHON, READ, cache)
    victim = make_files(tmp_path / "victim", source, 1_700_000_000)
    bytecode.compile_modules(str(tmp_path / "victim"), PYTHON, READ, cache)
    assert says(victim) == "hello\n"
    assert says(module) == "hello\n"


@pytest.mark.parametrize("name", ["m" * 235, "two\nlines", "carriage\rreturn"])
def test_bytecode_that_a_package_brings_is_not_kept_where_a_module_has_an_odd_name(tmp_path: Path, name: str) -> None:
    source, cache = "print('hello')\n", str(tmp_path / "cache")
    module = make_files(tmp_path / "evil", source, 1_700_000_000)
    odd = module.rename(module.with_name(f"{name}.py"))
    compiled(odd).parent.mkdir()
    compiled(odd).write_bytes(stolen_bytecode(tmp_path, flags=0, source=odd))
    bytecode.compile_modules(str(tmp_path / "evil"), PYTHON, READ, cache)
    assert not compiled(odd).exists() or b"stolen" not in compiled(odd).read_bytes()
    victim = make_files(tmp_path / "victim", source, 1_700_000_000)
    bytecode.compile_modules(str(tmp_path / "victim"), PYTHON, READ, cache)
    assert says(victim) == "hello\n"


def test_a_module_with_the_longest_name_is_installed_without_bytecode(tmp_path: Path) -> None:
    module = make_files(tmp_path / "files", "print('hello')\n", 1_700_000_000)
    longest = module.with_name("m" * 252 + ".py")
    longest.write_text("print('hello')\n")
    for _ in range(2):  # the second time, its bytecode is known
        bytecode.compile_modules(str(tmp_path / "files"), PYTHON, READ, str(tmp_path / "cache"))
        assert [path.name for path in module.parent.rglob("*.pyc")] == [compiled(module).name]


def test_bytecode_without_a_source_and_links_of_a_package_are_removed(tmp_path: Path) -> None:
    module = make_files(tmp_path / "files", "print('hello')\n", 1_700_000_000)
    outside, cache = tmp_path / "outside", str(tmp_path / "cache")
    outside.write_bytes(b"mine")
    bytecode.compile_modules(str(tmp_path / "files"), PYTHON, READ, cache)
    for folder, source in (("link", "soft"), ("hard", "hard"), ("alone", "")):
        brought = module.parent / folder / "__pycache__"
        brought.mkdir(parents=True)
        (brought / "gone.cpython-399.pyc").write_bytes(b"brought")
        if source:
            (brought.parent / "greeting.py").write_text("print('hello')\n")  # known, so written without a compiler
            make_link = os.symlink if source == "soft" else os.link
            make_link(outside, compiled(brought.parent / "greeting.py"))
    (module.parent / "folder").mkdir()
    (module.parent / "folder" / "__pycache__").symlink_to(tmp_path)
    (module.parent / "file").mkdir()
    (module.parent / "file" / "__pycache__").write_bytes(b"no folder")
    (module.parent / "file" / "greeting.py").write_text("print('hello')\n")
    bytecode.compile_modules(str(tmp_path / "files"), PYTHON, READ, cache)
    assert outside.read_bytes() == b"mine"
    assert not list((tmp_path / "files").rglob("gone*"))
    assert not os.path.lexists(module.parent / "folder" / "__pycache__")
    assert says(module.parent / "file" / "greeting.py") == "hello\n"
    assert b"brought" not in b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_what_was_kept_by_an_older_dragoman_is_not_used(tmp_path: Path) -> None:
    module = make_files(tmp_path / "files", "print('hello')\n", 1_700_000_000)
    key = hashlib.sha256(f"{PYTHON.path}\n{PYTHON.version}".encode()).hexdigest()[:16]
    code = stolen_bytecode(tmp_path, flags=0, source=module)
    entry = tmp_path / "cache" / "bytecode" / key / hashlib.sha256(module.read_bytes()).hexdigest()
    entry.parent.mkdir(parents=True)
    entry.write_bytes(hashlib.sha256(code).digest() + code)
    bytecode.compile_modules(str(tmp_path / "files"), PYTHON, READ, str(tmp_path / "cache"))
    assert says(module) == "hello\n"


def test_a_compiler_that_fails_ends_the_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path / "files", "print('hello')\n", 1_700_000_000)
    monkeypatch.setattr(bytecode, "_COMPILER", "import os; os.abort()")
    with pytest.raises(RegistryFault, match="failed to compile"):
        bytecode.compile_modules(str(tmp_path / "files"), PYTHON, READ, str(tmp_path / "cache"))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_half_of_what_was_kept_is_compiled_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    make_files(tmp_path / "first", "print('hello')\n", 1_700_000_000)
    bytecode.compile_modules(str(tmp_path / "first"), PYTHON, READ, str(cache))
    [entry] = [path for path in cache.rglob("*") if path.is_file()]
    assert entry.stat().st_mode & 0o777 == 0o600
    entry.write_bytes(entry.read_bytes()[:-5])
    second = make_files(tmp_path / "second", "print('hello')\n", 1_700_000_999)
    bytecode.compile_modules(str(tmp_path / "second"), PYTHON, READ, str(cache))
    assert says(second) == "hello\n"


def test_a_module_that_does_not_compile_has_no_bytecode(tmp_path: Path) -> None:
    good = make_files(tmp_path / "files", "print('hello')\n", 1_700_000_000)
    bad = good.with_name("template.py")
    bad.write_text("def {{ name }}\n")
    bytecode.compile_modules(str(tmp_path / "files"), PYTHON, READ, str(tmp_path / "cache"))
    assert compiled(good).exists()
    assert not compiled(bad).exists()


def test_what_was_not_used_for_long_is_removed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    make_files(tmp_path / "first", "print('hello')\n", 1_700_000_000)
    bytecode.compile_modules(str(tmp_path / "first"), PYTHON, READ, str(cache))
    [entry] = [path for path in cache.rglob("*") if path.is_file()]
    os.utime(entry, (1_700_000_000, 1_700_000_000))
    make_files(tmp_path / "second", "print('another')\n", 1_700_000_000)
    bytecode.compile_modules(str(tmp_path / "second"), PYTHON, READ, str(cache))
    assert not entry.exists()
