"""Envelopes: calls, results, errors; and what a peer gets for anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from dragoman.errors import Kind, ProtocolError
from dragoman.wire.depth import MAX_DEPTH
from dragoman.wire.envelope import (
    Envelope,
    Malformed,
    encode_call,
    encode_error,
    encode_result,
    parse_envelope,
    parse_excerpt,
    read_error,
)
from dragoman.wire.frames import EXCERPT_SIZE, Oversize

IDS = [0, -1, 7, 2**53, 2**64, 10**30, "", "abc", "7", "é🦜", 1.5, -0.25, None]


def refused(frame: bytes) -> Malformed:
    with pytest.raises(Malformed) as caught:
        parse_envelope(frame)
    return caught.value


@pytest.mark.parametrize("id", IDS)
def test_any_id_that_json_rpc_allows_is_read_and_written(id: Any) -> None:
    call = parse_envelope(json.dumps({"jsonrpc": "2.0", "id": id, "method": "m"}).encode())
    assert call.id == id
    assert type(call.id) is type(id)
    assert call.id is not UNSET
    for said in (encode_result(call.id, b"{}"), encode_error(call.id, b"{}"), encode_call(call.id, "m", None)):
        assert json.loads(said)["id"] == id


@pytest.mark.parametrize("id", ["true", "false", "[]", "{}", '{"id":1}', "[1]"])
def test_an_id_of_another_type_is_an_invalid_request_without_id(id: str) -> None:
    error = refused(f'{{"jsonrpc":"2.0","id":{id},"method":"m"}}'.encode())
    assert (error.kind, error.id) == (Kind.INVALID_REQUEST, None)


def test_params_and_results_stay_as_they_came() -> None:
    text = b'{ "b":1 , "a":[1.0,1e3,"\\u00e9"] }'
    for name in ("params", "result", "error"):
        method = b'"method":"m",' if name == "params" else b""
        envelope = parse_envelope(b'{"jsonrpc":"2.0","id":1,%b"%b":%b}' % (method, name.encode(), text))
        assert bytes(getattr(envelope, name)) == text


def test_absent_null_and_given_are_kept_apart() -> None:
    call = parse_envelope(b'{"method":"m"}')
    assert call.id is UNSET
    assert call.params is UNSET
    assert parse_envelope(b'{"method":"m","id":null}').id is None
    reply = parse_envelope(b'{"id":1,"result":null}')
    assert bytes(reply.result) == b"null"  # type: ignore[arg-type]
    assert reply.error is UNSET


def test_jsonrpc_may_be_absent_or_wrong_and_other_members_may_be_there() -> None:
    assert parse_envelope(b'{"id":1,"method":"m"}').method == "m"
    assert parse_envelope(b'{"jsonrpc":1.0,"id":1,"method":"m","extra":{"id":5}}').id == 1


def test_of_a_duplicate_key_the_last_one_counts() -> None:
    envelope = parse_envelope(b'{"id":1,"id":2,"method":"a","method":"b","params":1,"params":{"x":1}}')
    assert (envelope.id, envelope.method, bytes(envelope.params)) == (2, "b", b'{"x":1}')  # type: ignore[arg-type]


def test_an_answer_may_write_out_the_method_it_has_not_got() -> None:
    assert parse_envelope(b'{"id":1,"method":null,"result":{}}').method is UNSET


@pytest.mark.parametrize("frame", [b"", b"hello", b"{", b'{"id":1,"method":"m"', b'{"id":1 "method":"m"}', b"\xff"])
def test_what_is_no_json_is_a_parse_error_without_id(frame: bytes) -> None:
    error = refused(frame)
    assert (error.kind, error.id, error.is_call) == (Kind.PARSE_ERROR, None, False)


@pytest.mark.parametrize("frame", [b"1", b'"text"', b"null", b"true", b"[]", b'[{"id":1,"method":"m"}]'])
def test_batches_and_other_values_are_invalid_requests_without_id(frame: bytes) -> None:
    error = refused(frame)
    assert (error.kind, error.id) == (Kind.INVALID_REQUEST, None)
    assert not any(name in error.message for name in ("int", "str ", "NoneType", "bool "))  # JSON's names


def test_a_message_without_method_result_and_error_is_an_invalid_request_with_its_id() -> None:
    for frame, id in ((b'{"id":"x"}', "x"), (b'{"id":3,"params":{}}', 3), (b"{}", None)):
        error = refused(frame)
        assert (error.kind, error.id, error.is_call) == (Kind.INVALID_REQUEST, id, False)


@pytest.mark.parametrize("method", ["5", "null", "[]", "{}", "true"])
def test_a_method_that_is_no_string_is_an_invalid_request_with_its_id(method: str) -> None:
    error = refused(f'{{"id":9,"method":{method}}}'.encode())
    assert (error.kind, error.id, error.is_call) == (Kind.INVALID_REQUEST, 9, True)


def test_a_call_nested_past_the_limit_is_refused_with_its_id() -> None:
    for levels in (MAX_DEPTH + 1, 500, 100_000):
        bomb = b"[" * levels + b"]" * levels
        for frame in (b'{"id":5,"method":"m","params":%b}' % bomb, b'{"params":%b,"method":"m","id":5}' % bomb):
            error = refused(frame)
            assert (error.kind, error.id, error.is_call) == (Kind.PARSE_ERROR, 5, True)


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":5,"result":{"text": oops }}',
        b'{"id":5,"error":{"message":"half',
        b'{"result":{"text": oops },"id":5}',
        b'{"id":5,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_an_answer_that_cannot_be_read_still_tells_whose_it_is(frame: bytes) -> None:
    error = refused(frame)
    assert (error.kind, error.id, error.is_call) == (Kind.PARSE_ERROR, 5, False)


def test_broken_bytes_in_params_do_not_hide_the_id() -> None:
    for text in (b'"caf\xc3"', b'"\\ud800"', b"NaN", b'"a\tb"'):
        envelope = parse_envelope(b'{"id":4,"method":"m","params":{"x":%b}}' % text)
        assert (envelope.id, envelope.method) == (4, "m")


def test_a_huge_number_as_id_neither_fails_nor_takes_time() -> None:
    envelope = parse_envelope(b'{"id":' + b"1" * 100_000 + b',"method":"m"}')
    assert json.loads(encode_result(envelope.id, b"{}"))["id"] is None  # type: ignore[arg-type]


@given(st.binary(max_size=80) | st.text(alphabet='{}[]":,\\ idmethoresult0eE.-', max_size=60).map(str.encode))
def test_any_bytes_are_an_envelope_or_malformed(frame: bytes) -> None:
    try:
        envelope = parse_envelope(frame)
    except Malformed as error:
        encode_error(error.id, b"{}")
    else:
        assert isinstance(envelope, Envelope)


@pytest.mark.parametrize(
    ("text", "code", "message", "data"),
    [
        (b'{"code":-32602,"message":"bad","data":{"a":1}}', -32602, "bad", {"a": 1}),
        (b'{"code":-32602.0,"message":"bad"}', -32602, "bad", None),
        (b'{"message":"no number"}', -32603, "no number", None),
        (b'{"code":"7","message":"a text as number"}', -32603, "a text as number", None),
        (b'{"code":true}', -32603, "", None),
        (b'{"code":1e400}', -32603, "", None),
        (b'{"code":1,"message":{"detail":"odd"}}', 1, '{"detail":"odd"}', None),
        (b'{"code":1,"message":"caf\xc3"}', 1, "caf\ufffd", None),
        (b'"just a text"', -32603, "just a text", None),
        (b"null", -32603, "the peer did not say what is wrong", None),
        (b"[1]", -32603, "the peer did not say what is wrong", None),
    ],
)
def test_an_error_of_any_shape_is_read(text: bytes, code: int, message: str, data: Any) -> None:
    error = read_error(Raw(text))
    assert (error.code, error.message, error.data) == (code, message, data)


@given(st.binary(max_size=60))
def test_no_error_of_a_peer_raises_anything_else_than_a_protocol_error(text: bytes) -> None:
    try:
        assert isinstance(read_error(Raw(text)).code, int)
    except ProtocolError:
        pass


def oversize(frame: bytes) -> Oversize:
    return Oversize(len(frame), frame[:EXCERPT_SIZE], frame[-EXCERPT_SIZE:])


BULK = json.dumps({"id": 666, "text": "x" * 10_000, "inner": [{"id": 667, "method": "wrong"}]}).encode()


@pytest.mark.parametrize(
    ("frame", "id", "method"),
    [
        (b'{"jsonrpc":"2.0","id":3,"method":"m","params":%b}', 3, "m"),
        (b' { "id" : "a\\"b" , "method" : "m" , "params" : %b } ', 'a"b', "m"),
        (b'{"method":"m","params":%b,"id":3,"jsonrpc":"2.0"}', 3, "m"),
        (b'{"params":%b,"jsonrpc":"2.0","id":"x","method":"m"}\r', "x", "m"),
        (b'{"id":3,"params":%b,"method":"m"}', 3, "m"),
        (b'{"jsonrpc":"2.0","id":null,"result":%b}', None, UNSET),
        (b'{"jsonrpc":"2.0","id":-5,"result":%b}', -5, UNSET),
        (b'{"jsonrpc":"2.0","result":%b,"id":12}', 12, UNSET),
        (b'{"jsonrpc":"2.0","method":"m","params":%b}', UNSET, "m"),
        (b'{"params":%b}', UNSET, UNSET),
        (b'[{"id":1,"method":"m","params":%b,"id":2}]', UNSET, UNSET),
        (b'{"params":{"id":1,"bulk":%b}}', UNSET, UNSET),
        (b'{"params":{"bulk":%b,"id":1}}', UNSET, UNSET),
        (b'{"params":[%b,{"x":0,"id":1}]}', UNSET, UNSET),
        (b'{"bulk":%b,"text":"\\",\\"id\\":1"}', UNSET, UNSET),
        (b'{"bulk":%b,"text":",\\"id\\":1}"}', UNSET, UNSET),
        (b'{"id":{"id":1},"bulk":%b,"x":{"a":1,"id":2}}', UNSET, UNSET),
        (b'{"id":007,"method":"m","params":%b}', UNSET, "m"),
        (b'{"id":"\\q","method":"m","params":%b}', UNSET, "m"),
        (b'{"id":"\\ud800","method":"m","params":%b}', "\ufffd", "m"),
        (b'{"id":"caf\xc3","method":"m","params":%b}', "caf\ufffd", "m"),
        (b'{"id":1.5,"method":"m","params":%b}', UNSET, UNSET),
        (b'{"id":4,"method":null,"params":%b}', 4, UNSET),
    ],
)
def test_id_and_method_are_found_at_either_end_at_depth_one_only(frame: bytes, id: Any, method: Any) -> None:
    known = parse_excerpt(oversize(frame % BULK))
    assert (known.id, known.method) == (id, method)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_ends_can_be_looked_at(head: bytes, tail: bytes) -> None:
    known = parse_excerpt(Oversize(10**9, b'{"id":' + head, tail + b',"id":3}'))
    assert known.id is UNSET or known.id is None or isinstance(known.id, int | str)


@given(st.recursive(st.integers(0, 9), lambda v: st.dictionaries(st.sampled_from(["id", "method", "x"]), v)))
def test_a_nested_id_is_never_taken_for_the_message_s_own(value: Any) -> None:
    frame = json.dumps({"params": {"bulk": "x" * 2 * EXCERPT_SIZE, "value": value}, "more": [value]}).encode()
    assert parse_excerpt(oversize(frame)).id is UNSET


def test_encoded_messages_are_json_rpc_in_one_line() -> None:
    assert encode_call(UNSET, "m", b'{"a":1}') == b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}'
    assert encode_call(1, "m", None) == b'{"jsonrpc":"2.0","id":1,"method":"m"}'
    assert encode_result("x", b"{}") == b'{"jsonrpc":"2.0","id":"x","result":{}}'
    assert encode_error(None, b"{}") == b'{"jsonrpc":"2.0","id":null,"error":{}}'
    assert b"\n" not in encode_call("a\nb", "c\nd", None)


def test_a_garbled_answer_is_no_call_whatever_it_ends_with() -> None:
    with pytest.raises(Malformed) as caught:
        parse_envelope(b'{"jsonrpc":"2.0","id":"a","result":{,"method":"session/prompt"}')
    assert (caught.value.id, caught.value.is_call) == ("a", False)
