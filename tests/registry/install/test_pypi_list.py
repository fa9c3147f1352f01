"""A list for uv has packages with hashes and comments; whatever else uv would obey is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.registry.fault import RegistryFault
from dragoman.registry.install.pypi_list import check_list

HASH = f"--hash=sha256:{'0a' * 32}"
PACKAGE = f"small-agent==1.0 \\\n    {HASH}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        PACKAGE,
        f"# made by uv\n{PACKAGE}\n  # via small\n{PACKAGE}",
        f"a[b,c-d]==1!2.0rc1+local.1 ; python_full_version < '3.12' \\\n    {HASH} \\\n    {HASH}\n",
        f"a==1 ; (extra == 'x' or os_name in 'nt, posix') {HASH}",
        f"a==1 {HASH} {HASH}\n",
        f"a==1 --hash=sha512:{'0' * 128}\n",
    ],
)
def test_what_uv_writes_is_accepted(text: str) -> None:
    assert check_list(text.encode(), "list") == text


@pytest.mark.parametrize(
    "line",
    [
        "--no-binary evil",
        "--no-binary=evil",
        " --no-binary evil",
        "-e ./evil",
        "-r other.txt",
        "-c other.txt",
        "-i https://evil.example/simple",
        "--extra-index-url https://evil.example/simple",
        "--find-links .",
        f"evil @ https://evil.example/evil-1.0.tar.gz {HASH}",
        f"https://evil.example/evil-1.0.tar.gz {HASH}",
        f"./evil {HASH}",
        f"evil>=1 {HASH}",
        f"evil==1.* {HASH}",
        f"evil===1 {HASH}",
        f"evil {HASH}",
        "evil==1",
        "evil==1 --hash=md5:d41d8cd98f00b204e9800998ecf8427e",
        f"evil==1 --config-settings=x=y {HASH}",
        f"evil==1 ; python_version > '3' --no-binary evil {HASH}",
        f"evil==1 {HASH} --no-binary evil",
        f"evil==1 \\\n--no-binary evil \\\n    {HASH}",
        f"evil==1 \\\n# comment\n    {HASH}",
        f"evil==1 \\\n\n    {HASH}",
        f"    {HASH}",
        "# comment \\",
        "# comment\r--no-binary evil",
        "# comment\x0c--no-binary evil",
        "\ufeff--no-binary evil",
        "${EVIL}",
        "evil==1 \\",
    ],
)
@pytest.mark.parametrize("place", ["{line}\n{package}", "{package}{line}\n", "{package}{line}"])
def test_options_addresses_and_packages_without_a_hash_are_refused(line: str, place: str) -> None:
    with pytest.raises(RegistryFault, match="dragoman agents lock") as caught:
        check_list(place.format(line=line, package=PACKAGE).encode(), "list")
    assert caught.value.why == "hash"
    assert "\n" not in str(caught.value)


def test_a_list_that_is_no_text_is_refused() -> None:
    with pytest.raises(RegistryFault) as caught:
        check_list(b"\xff", "list")
    assert "list is no text" in str(caught.value)


@given(st.text(alphabet="a=1-;#\\ \n\r'hs:", max_size=40))
def test_no_accepted_line_begins_an_option(text: str) -> None:
    try:
        check_list(f"{PACKAGE}{text}".encode(), "list")
    except RegistryFault:
        return
    assert not any(line.split("#")[0].strip() for line in text.splitlines())
