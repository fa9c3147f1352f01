"""The contract check for dialects, to call from a test; it needs no example messages.

A codec is pure: it does not change its input, is deterministic, accepts any JSON, and lifts what it lowered back to
the same message. What it cannot express it refuses by name or carries as side data. An emulator does no I/O and shares
no state between connections. Messages are generated from the schema types (`samples`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

import msgspec

from dragoman.dialect import emulator as emulators
from dragoman.dialect.dialects import Dialect
from dragoman.dialect.losses import missing_paths, without_side_data
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.text_chunk import Chunk, parse_chunk, render_chunk
from dragoman.errors import KINDS, ProtocolError
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side
from dragoman.testing.samples import random_json, samples

Json = Any

# Effects taken from one flow: a flow that polls would go on without end.
MAX_EFFECTS = 60

# Random JSON values given to each function: enough to hit every rule several times, in a second or two.
RANDOM_VALUES = 1500


class _Message(NamedTuple):
    """A message of the schema: a call, or the result of one."""

    row: Method
    is_call: bool
    value: Json

    def __str__(self) -> str:
        what = "" if self.is_call else "the result of "
        return f"{what}{self.row.name} {msgspec.json.encode(self.value).decode()[:600]}"


def check_dialect(dialect: Dialect, *, reworded: Collection[str] = (), seed: int = 0) -> None:
    """Check that a dialect is pure both ways, loses no data silently, and shares no state between connections.

    `reworded` names members ("terminal/create.command") that come back in another form with the same meaning.
    """
    for message in _messages():
        _check_codec(dialect, message, reworded)
    _check_random_json(dialect, Random(seed))
    _check_chunk(dialect)
    unknown = set(dialect.error_codes) - set(KINDS)
    assert not unknown, f"{dialect.name} has codes for unknown error kinds: {sorted(unknown)}"
    lacking = [kind for kind in KINDS if kind not in dialect.error_codes]
    assert not lacking, f"{dialect.name} has no error code for {', '.join(lacking)}"
    for peer in Side:
        _check_emulator(dialect, peer)


def _messages() -> Iterator[_Message]:
    for row in METHODS.values():
        for params in samples(row.params):
            yield _Message(row, True, params)
        if row.result not in (None, Any):
            for result in samples(row.result):
                yield _Message(row, False, result)


# --- codec ----------------------------------------------------------------------------------------------------------


def _check_codec(dialect: Dialect, message: _Message, reworded: Collection[str]) -> None:
    about = f"{dialect.name}, {message}"
    wire = _pure(lambda value: _lower(dialect, message._replace(value=value)), message.value, f"lowering of {about}")
    if wire is None:
        return  # refused by name
    method, body = wire
    notes = _notes(body)
    assert not notes & {"inferred"}, f"{about}: inferred side data must not be sent: {body}"
    result = _pure(lambda value: _lift(dialect, message, method, value), without_side_data(body), f"lifting of {about}")
    assert result is not None, f"{about}: the dialect cannot lift what it lowered ({method} {body})"
    name, lifted = result
    assert name == message.row.name, f"{about}: it is lowered to {method}, which is lifted as {name}"
    kind = message.row.params if message.is_call else message.row.result
    _readable(kind, lifted, f"{about}: it is lifted as {lifted}, which does not fit the schema")
    lost = [
        path
        for path in missing_paths(message.value, without_side_data(lifted), "")
        if not _is_carried(path, notes) and f"{message.row.name}.{path}" not in reworded
    ]
    assert not lost, (
        f"{about}: {', '.join(lost)} is lost: not in the message, not in the side data, not refused: {body}"
    )
    again = _lower(dialect, message._replace(value=lifted))
    assert again is not None, f"{about}: the dialect cannot lower what it lifted ({lifted})"
    changed = [
        path
        for path in missing_paths(without_side_data(body), without_side_data(again[1]), "")
        if f"{message.row.name}.{path}" not in reworded
    ]
    assert not changed, (
        f"{about}: lowered, lifted and lowered again, it differs in {', '.join(changed)}: {without_side_data(again[1])}"
    )


def _is_carried(path: str, notes: set[str]) -> bool:
    """Return whether some member on the path is in the side data."""
    return bool({part.removesuffix("[]") for part in path.split(".")} & notes)


def _lower(dialect: Dialect, message: _Message) -> tuple[str, Json] | None:
    side, name = message.row.side, message.row.name
    try:
        if message.is_call:
            return dialect.lower_call(side, name, message.value)
        return name, dialect.lower_result(side, name, message.value)
    except ProtocolError:
        return None


def _lift(dialect: Dialect, message: _Message, method: str, value: Json) -> tuple[str, Json] | None:
    try:
        if message.is_call:
            return dialect.lift_call(message.row.side, method, value)
        return method, dialect.lift_result(message.row.side, method, value)
    except ProtocolError:
        return None


def _pure(convert: Callable[[Json], Any], value: Json, about: str) -> Any:
    """Return the result, after checking that it is deterministic and JSON, and that the input is unchanged."""
    given = deepcopy(value)
    try:
        first, second = convert(given), convert(deepcopy(value))
    except Exception as error:
        raise AssertionError(
            f"the {about} raised {error!r}; raise Unsayable for what the dialect cannot express"
        ) from error
    assert given == value, f"the {about} changed its input"
    assert first == second, f"the {about} is not deterministic: {first} and {second}"
    try:
        msgspec.json.encode(first)
    except (TypeError, NotImplementedError) as error:
        raise AssertionError(f"the {about} returned something that is not JSON: {error}") from error
    except UnicodeEncodeError:
        pass  # a lone surrogate passed through; the encoder repairs it
    return first


def _readable(kind: Any, value: Json, about: str) -> None:
    from dragoman.schema.lenient import read_leniently

    try:
        read_leniently(kind, value)
    except ProtocolError as error:
        raise AssertionError(f"{about}: {error}") from error


def _notes(value: Json) -> set[str]:
    """Return the names of all side data."""
    if isinstance(value, list):
        return {name for item in value for name in _notes(item)}
    if not isinstance(value, dict):
        return set()
    found = {name for item in value.values() for name in _notes(item)}
    meta = value.get("_meta")
    side = meta.get(SIDE_DATA_KEY) if isinstance(meta, dict) else None
    return found | _names(side)


def _names(value: Json) -> set[str]:
    if isinstance(value, list):
        return {name for item in value for name in _names(item)}
    if not isinstance(value, dict):
        return set()
    return set(value) | {name for item in value.values() for name in _names(item)}


def _check_random_json(dialect: Dialect, random: Random) -> None:
    members = sorted({name for message in _messages() for name in _names(message.value)} | {"_meta", SIDE_DATA_KEY})
    methods = sorted({name for _, name in METHODS} | {"_own/method", "nonsense"})
    for _ in range(RANDOM_VALUES):
        side, method, value = random.choice(list(Side)), random.choice(methods), random_json(random, members)
        for convert in (dialect.lift_call, dialect.lower_call, dialect.lift_result, dialect.lower_result):
            before = deepcopy(value)
            try:
                convert(side, method, value)
            except ProtocolError:
                pass
            except Exception as error:
                raise AssertionError(
                    f"{dialect.name}: {method} with {value!r} raised {error!r}; pass odd values on for validation"
                ) from error
            assert value == before, f"{dialect.name}: {method} changed its input, {before!r}"


def _check_chunk(dialect: Dialect) -> None:
    """The fast path for text chunks gives the same as the general one."""
    kinds = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
    for chunk in (Chunk("s1", kind, 'a "piece"\n of téxt', id) for kind in kinds for id in ("", "m1")):
        short = render_chunk(dialect.chunk_forms, chunk)
        if short is None:
            continue  # uses the general path
        update = {"sessionUpdate": chunk.kind, "content": {"type": "text", "text": chunk.text}}
        if chunk.message_id:
            update["messageId"] = chunk.message_id
        _, long = dialect.lower_call(Side.CLIENT, "session/update", {"sessionId": "s1", "update": update})
        assert msgspec.json.decode(short) == without_side_data(long), (
            f"{dialect.name} lowers {chunk.kind} in two ways: {short!r}, {long}"
        )
        assert parse_chunk(dialect.chunk_forms, msgspec.Raw(short)) == chunk, (
            f"{dialect.name} cannot parse its own {chunk.kind}"
        )
    assert parse_chunk(dialect.chunk_forms, msgspec.Raw(b'{"odd":1}')) is None, (
        f"{dialect.name} parses any object as a text chunk"
    )


# --- emulator -------------------------------------------------------------------------------------------------------


def _check_emulator(dialect: Dialect, peer: Side) -> None:
    first = _open(dialect, peer)
    if first is None:
        return
    about = f"the emulator of {dialect.name} for {peer.value}s"
    assert first.peer_side is peer, f"{about} says that its peer is the {first.peer_side.value}"
    for side, table in ((peer.other, first.incoming), (peer, first.outgoing), (peer, first.result_observers)):
        odd = [name for name in table if (side, name) not in METHODS]
        assert not odd, f"{about} has flows for methods that the {side.value} never receives: {', '.join(odd)}"
    once, twice = (_run_all(_open(dialect, peer), about) for _ in range(2))
    for before, after in zip(once, twice, strict=True):
        assert before == after, f"{about} differs between two connections: {before}, then {after}"


def _open(dialect: Dialect, peer: Side) -> emulators.Emulator | None:
    numbers = iter(range(10_000))
    settings = emulators.EmulatorSettings(
        cwd="/w", now=lambda: "2026-01-01T00:00:00Z", new_id=lambda: f"id-{next(numbers)}"
    )
    return dialect.open_emulator(peer, settings)


def _run_all(emulator: emulators.Emulator | None, about: str) -> list[str]:
    """Return all effects of an emulator when every message passes once, both ways."""
    assert emulator is not None
    done: list[str] = []
    for message in _messages():
        table = emulator.incoming if message.row.side is emulator.peer_side.other else emulator.outgoing
        make = table.get(message.row.name)
        if make is None or not message.is_call:
            continue
        params = msgspec.convert(message.value, message.row.params)
        try:
            done.append(f"{message}: {list(_effects(make(emulator, params), message.row, emulator.peer_side, about))}")
        except ProtocolError as error:
            done.append(f"{message}: {error}")
    return done


def _effects(flow: emulators.Flow, row: Method, peer: Side, about: str) -> Iterator[str]:
    answer: Any = None
    try:
        for _ in range(MAX_EFFECTS):
            effect = flow.send(answer)
            assert isinstance(effect, emulators.Effect), (
                f"{about}: the flow of {row.name} yields {effect!r}, which is not an effect"
            )
            if isinstance(effect, emulators.Start):
                yield "Start"
                yield from _effects(effect.flow, row, peer, about)
            else:
                yield repr(effect)
            answer = _answer(effect, row, peer)
    except StopIteration:
        return
    finally:
        flow.close()


def _answer(effect: Any, row: Method, peer: Side) -> Any:
    if isinstance(effect, emulators.Wake):
        return False
    asked: Method | None = None
    if isinstance(effect, emulators.Pass):
        asked = row
    elif isinstance(effect, emulators.SendRequest | emulators.SendNotification):
        asked = METHODS.get((peer, effect.method))
    elif isinstance(effect, emulators.Deliver):
        asked = METHODS.get((peer.other, effect.method))
    if asked is None or asked.result in (None, Any) or isinstance(effect, emulators.SendNotification):
        return None
    return msgspec.convert(samples(asked.result)[-1], asked.result)
