"""The contract of dialects, as a function to call from a test: any dialect, ours or yours, with no examples written.

A spelling is pure: it changes nothing it is given, says the same twice, bears any JSON, and what it said is read back
as what was meant; what it has no words for it refuses by name or carries beside, never drops. A ledger does no I/O and
shares nothing with the ledger of another connection. Messages are made from the types of the vocabulary (`samples`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

import msgspec

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.emulator import (
    Deliver,
    Effect,
    Emulator,
    EmulatorSettings,
    Flow,
    Pass,
    SendNotification,
    SendRequest,
    Start,
    Wake,
)
from dragoman.dialect.losses import missing_paths, without_side_data
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.text_chunk import Chunk
from dragoman.errors import KINDS, ProtocolError
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side
from dragoman.testing.samples import anything, samples

Json = Any

# A flow that polls goes on as long as it is answered so; what it does by then is what it does. Effects.
ENOUGH = 60

# So much JSON without sense is given to each function: every rule is met some dozen times, in a second or two.
SENSELESS = 1500


class _Said(NamedTuple):
    """A message of the vocabulary: a call, or the result of one."""

    row: Method
    is_call: bool
    value: Json

    def __str__(self) -> str:
        what = "" if self.is_call else "the result of "
        return f"{what}{self.row.name} {msgspec.json.encode(self.value).decode()[:600]}"


def check_dialect(dialect: Dialect, *, reworded: Collection[str] = (), seed: int = 0) -> None:
    """A dialect is pure both ways, loses nothing unseen, and keeps its connections apart; else an AssertionError.

    `reworded` names members ("terminal/create.command") that come back in other words which mean the same.
    """
    for said in _messages():
        _check_spelling(dialect, said, reworded)
    _check_senseless(dialect, Random(seed))
    _check_chunk(dialect)
    unknown = set(dialect.error_codes) - set(KINDS)
    assert not unknown, f"{dialect.name} has numbers for errors that nobody knows: {sorted(unknown)}"
    lacking = [kind for kind in KINDS if kind not in dialect.error_codes]
    assert not lacking, f"{dialect.name} has no number for {', '.join(lacking)}"
    for peer in Side:
        _check_ledger(dialect, peer)


def _messages() -> Iterator[_Said]:
    for row in METHODS.values():
        for params in samples(row.params):
            yield _Said(row, True, params)
        if row.result not in (None, Any):
            for result in samples(row.result):
                yield _Said(row, False, result)


# --- spelling -------------------------------------------------------------------------------------------------------


def _check_spelling(dialect: Dialect, said: _Said, reworded: Collection[str]) -> None:
    about = f"{dialect.name}, {said}"
    wire = _pure(lambda value: _lower(dialect, said._replace(value=value)), said.value, f"lowering of {about}")
    if wire is None:
        return  # refused by name
    method, body = wire
    notes = _notes(body)
    assert not notes & {"inferred"}, f"{about}: what was inferred stays at home, and was said: {body}"
    heard = _pure(lambda value: _lift(dialect, said, method, value), without_side_data(body), f"lifting of {about}")
    assert heard is not None, f"{about}: what was said ({method} {body}) is not understood by its own reader"
    name, meant = heard
    assert name == said.row.name, f"{about}: it was said as {method}, and that is read as {name}"
    kind = said.row.params if said.is_call else said.row.result
    _readable(kind, meant, f"{about}: it is read back as {meant}, which is not in the vocabulary")
    lost = [
        path
        for path in missing_paths(said.value, without_side_data(meant), "")
        if not _is_carried(path, notes) and f"{said.row.name}.{path}" not in reworded
    ]
    assert not lost, f"{about}: {', '.join(lost)} is lost, neither said nor carried beside nor refused: {body}"
    again = _lower(dialect, said._replace(value=meant))
    assert again is not None, f"{about}: what it read itself ({meant}) it cannot say again"
    told = missing_paths(without_side_data(body), without_side_data(again[1]), "")
    assert not told, (
        f"{about}: said, read and said again it differs in {', '.join(told)}: {without_side_data(again[1])}"
    )


def _is_carried(path: str, notes: set[str]) -> bool:
    """Whether something along the path stands beside."""
    return bool({part.removesuffix("[]") for part in path.split(".")} & notes)


def _lower(dialect: Dialect, said: _Said) -> tuple[str, Json] | None:
    side, name = said.row.side, said.row.name
    try:
        if said.is_call:
            return dialect.lower_call(side, name, said.value)
        return name, dialect.lower_result(side, name, said.value)
    except ProtocolError:
        return None


def _lift(dialect: Dialect, said: _Said, method: str, value: Json) -> tuple[str, Json] | None:
    try:
        if said.is_call:
            return dialect.lift_call(said.row.side, method, value)
        return method, dialect.lift_result(said.row.side, method, value)
    except ProtocolError:
        return None


def _pure(spell: Callable[[Json], Any], value: Json, about: str) -> Any:
    """What it gives, after it was seen to give the same twice, to change nothing, and to give JSON."""
    given = deepcopy(value)
    try:
        first, second = spell(given), spell(deepcopy(value))
    except Exception as error:
        raise AssertionError(f"the {about} raised {error!r}; raise Unsayable for what cannot be said") from error
    assert given == value, f"the {about} changed what it was given"
    assert first == second, f"the {about} gave two things for one: {first} and {second}"
    try:
        msgspec.json.encode(first)
    except (TypeError, NotImplementedError) as error:
        raise AssertionError(f"the {about} gave something that is no JSON: {error}") from error
    except UnicodeEncodeError:
        pass  # a lone surrogate came in and goes out; the encoder mends it
    return first


def _readable(kind: Any, value: Json, about: str) -> None:
    from dragoman.schema.lenient import read_leniently

    try:
        read_leniently(kind, value)
    except ProtocolError as error:
        raise AssertionError(f"{about}: {error}") from error


def _notes(value: Json) -> set[str]:
    """The names of everything that is carried beside."""
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


def _check_senseless(dialect: Dialect, random: Random) -> None:
    words = sorted({name for said in _messages() for name in _names(said.value)} | {"_meta", SIDE_DATA_KEY})
    methods = sorted({name for _, name in METHODS} | {"_own/method", "nonsense"})
    for _ in range(SENSELESS):
        side, method, value = random.choice(list(Side)), random.choice(methods), anything(random, words)
        for spell in (dialect.lift_call, dialect.lower_call, dialect.lift_result, dialect.lower_result):
            before = deepcopy(value)
            try:
                spell(side, method, value)
            except ProtocolError:
                pass
            except Exception as error:
                raise AssertionError(
                    f"{dialect.name}: {method} with {value!r} raised {error!r}; what is odd is left for validation"
                ) from error
            assert value == before, f"{dialect.name}: {method} changed what it was given, {before!r}"


def _check_chunk(dialect: Dialect) -> None:
    """The short way of a piece of text comes to the same as the long one."""
    for kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        chunk = Chunk("s1", kind, 'a "piece"\n of téxt')
        try:
            short = dialect.chunk_form.render_params(chunk)
        except KeyError:
            continue  # goes the long way
        update = {"sessionUpdate": kind, "content": {"type": "text", "text": chunk.text}}
        _, long = dialect.lower_call(Side.CLIENT, "session/update", {"sessionId": "s1", "update": update})
        assert msgspec.json.decode(short) == without_side_data(long), (
            f"{dialect.name} says {kind} in two ways: {short!r}, {long}"
        )
        assert dialect.chunk_form.parse_params(msgspec.Raw(short)) == chunk, (
            f"{dialect.name} does not read its own {kind}"
        )
    assert dialect.chunk_form.parse_params(msgspec.Raw(b'{"odd":1}')) is None, (
        f"{dialect.name} takes anything for a piece of text"
    )


# --- ledger ---------------------------------------------------------------------------------------------------------


def _check_ledger(dialect: Dialect, peer: Side) -> None:
    first = _opened(dialect, peer)
    if first is None:
        return
    about = f"the ledger of {dialect.name} for {peer.value}s"
    assert first.peer_side is peer, f"{about} says that its peer is the {first.peer_side.value}"
    for side, table in ((peer.other, first.incoming), (peer, first.outgoing), (peer, first.result_observers)):
        odd = [name for name in table if (side, name) not in METHODS]
        assert not odd, f"{about} has flows for what the {side.value} never receives: {', '.join(odd)}"
    once, twice = (_lived(_opened(dialect, peer), about) for _ in range(2))
    for before, after in zip(once, twice, strict=True):
        assert before == after, f"{about} is not the same for two connections: {before}, then {after}"


def _opened(dialect: Dialect, peer: Side) -> Emulator | None:
    numbers = iter(range(10_000))
    settings = EmulatorSettings(cwd="/w", now=lambda: "2026-01-01T00:00:00Z", new_id=lambda: f"id-{next(numbers)}")
    return dialect.open_emulator(peer, settings)


def _lived(ledger: Emulator | None, about: str) -> list[str]:
    """Everything a ledger does when every message there is passes once, both ways."""
    assert ledger is not None
    done: list[str] = []
    for said in _messages():
        table = ledger.incoming if said.row.side is ledger.peer_side.other else ledger.outgoing
        make = table.get(said.row.name)
        if make is None or not said.is_call:
            continue
        params = msgspec.convert(said.value, said.row.params)
        try:
            done.append(f"{said}: {list(_effects(make(ledger, params), said.row, ledger.peer_side, about))}")
        except ProtocolError as error:
            done.append(f"{said}: {error}")
    return done


def _effects(flow: Flow, row: Method, peer: Side, about: str) -> Iterator[str]:
    answer: Any = None
    try:
        for _ in range(ENOUGH):
            effect = flow.send(answer)
            assert isinstance(effect, Effect), (
                f"{about}: the flow of {row.name} asks for {effect!r}, which is no effect"
            )
            if isinstance(effect, Start):
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
    if isinstance(effect, Wake):
        return False
    asked: Method | None = None
    if isinstance(effect, Pass):
        asked = row
    elif isinstance(effect, SendRequest | SendNotification):
        asked = METHODS.get((peer, effect.method))
    elif isinstance(effect, Deliver):
        asked = METHODS.get((peer.other, effect.method))
    if asked is None or asked.result in (None, Any) or isinstance(effect, SendNotification):
        return None
    return msgspec.convert(samples(asked.result)[-1], asked.result)
