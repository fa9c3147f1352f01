"""JSON-RPC at a v2 client: ids, arrays, unknown methods."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.requirement import must

INVALID_REQUEST = -32600


async def _require_invalid(client: ClientUnderTest, message: Json, what: str) -> None:
    """Require that something is answered with -32600 and the id null, and that the client goes on."""
    async with client.turn():
        client.send(message)
        frame = await client.wait_for(lambda frame: frame.is_reply)
        frame = client.require(frame, f"{what} was not answered")
        client.require(frame.message.get("id") is None, f"the answer to {what} has an id", frame)
        code = frame.error.get("code")
        client.require(code == INVALID_REQUEST, f"{what} was answered with {code!r}, not {INVALID_REQUEST}", frame)


def _request(id: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": "_vendor/question", "params": {}}


@must("client.v2rpc.01", "v2.md#ids")
async def a_null_id_is_invalid(client: ClientUnderTest) -> None:
    """A request with the id null is answered with -32600 and the id null."""
    await _require_invalid(client, _request(None), "a request with the id null")


@must("client.v2rpc.02", "v2.md#ids")
async def a_fractional_id_is_invalid(client: ClientUnderTest) -> None:
    """A request with a fractional id is answered with -32600 and the id null."""
    await _require_invalid(client, _request(1.5), "a request with a fractional id")


@must("client.v2rpc.03", "v2.md#batches")
async def an_array_is_invalid(client: ClientUnderTest) -> None:
    """An array of requests is answered with -32600 and the id null."""
    await _require_invalid(client, [_request(1), _request(2)], "an array")


@must("client.v2rpc.04", "v2.md#errors")
async def unknown_methods_are_refused(client: ClientUnderTest) -> None:
    """A request of an unknown method is refused with -32601."""
    async with client.turn():
        frame = await client.require_answer("no/such_method", {})
        client.require(frame.error.get("code") == -32601, "an unknown method was not refused with -32601", frame)


@must("client.v2rpc.05", "v2.md#errors")
async def unknown_notifications_are_ignored(client: ClientUnderTest) -> None:
    """An unknown notification does no harm."""
    async with client.turn(survives="an unknown notification"):
        client.notify("_vendor/unknown_notification", {"a": 1})


@must("client.v2rpc.06", "v2.md#ids")
async def an_invalid_id_does_no_harm(client: ClientUnderTest) -> None:
    """After a request with an invalid id the client still works."""
    async with client.turn(survives="a request with an invalid id"):
        client.send(_request(3.5))


@must("client.v2rpc.07", "v2.md#ids")
async def ids_come_back(client: ClientUnderTest) -> None:
    """A request is answered with its own id, a string or an integer."""
    async with client.turn():
        for id in ("question-7", 700):
            client.call("_vendor/question", {}, id=id)
            frame = await client.wait_for(lambda frame: frame.is_reply)
            frame = client.require(frame, f"a request with the id {id!r} was not answered")
            client.require(frame.message.get("id") == id, f"the id {id!r} did not come back", frame)
