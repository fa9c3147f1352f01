"""Messages of language servers: split in any chunking, with noise, cut headers and bodies that are too large."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.lsp.framing import HeaderFraming, HeaderSplitter
from dragoman.wire.frames import Oversize

BODIES = [b'{"id":1}', "{'ü': 1}".encode(), b"[]"]


def split(data: bytes, size: int, **limits: int) -> list[object]:
    """Feed the data in pieces of this size."""
    splitter = HeaderSplitter(**limits)
    return [frame for start in range(0, len(data), size) for frame in splitter.feed(data[start : start + size])]


@given(st.lists(st.binary(min_size=1, max_size=80), max_size=6), st.integers(1, 50))
def test_messages_come_out_as_they_went_in_however_they_are_cut(bodies: list[bytes], size: int) -> None:
    assert split(HeaderFraming().join(bodies), size) == bodies


@given(st.integers(1, 60), st.sampled_from([b"", b"warning: old config\n", b"Content-", b"content-length: x\n"]))
def test_noise_between_messages_is_dropped(size: int, noise: bytes) -> None:
    data = b"".join(noise + b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in BODIES)
    assert split(data + noise, size) == BODIES


@given(st.binary(max_size=400), st.integers(1, 40))
def test_no_bytes_break_the_splitter(data: bytes, size: int) -> None:
    frames = split(data, size, max_body=1000)
    assert all(isinstance(frame, bytes | Oversize) for frame in frames)


def test_headers_may_have_another_case_other_members_and_bare_line_ends() -> None:
    data = b"Content-Type: x\r\ncontent-length:2\r\nX-Other: y\r\n\r\n[]Content-Length: 4\n\nnull"
    assert split(data, 3) == [b"[]", b"null"]


def test_a_body_over_the_limit_keeps_its_ends_only_and_the_next_message_is_read() -> None:
    big = b'{"id":7,"result":"' + b"x" * 20_000 + b'"}'
    data = HeaderFraming().join([big, b"[1]"])
    oversize, after = split(data, 700, max_body=10_000)
    assert isinstance(oversize, Oversize)
    assert (oversize.size, oversize.head[:7], oversize.tail[-2:]) == (len(big), b'{"id":7', b'"}')
    assert after == b"[1]"


def test_endless_noise_is_reported_and_not_held() -> None:
    splitter = HeaderSplitter(max_noise=1000)
    frames = [frame for _ in range(100) for frame in splitter.feed(b"log line without any header\n")]
    assert [frame for frame in frames if isinstance(frame, Oversize)]
    assert len(splitter._buffer) < 100


def test_a_header_that_never_ends_is_noise() -> None:
    data = b"Content-Length: 5\r\n" + b"X-Long: 1\r\n" * 1000 + b"\r\n" + b"Content-Length: 2\r\n\r\n[]"
    assert split(data, 512)[-1:] == [b"[]"]
