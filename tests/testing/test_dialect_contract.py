"""check_dialect passes our dialects and fails broken ones; neither needs example messages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

import msgspec
import pytest

from dragoman.dialect.dialects import DIALECT_NAMES, Dialect, load_dialect
from dragoman.dialect.emulator import Emulator, Flow, FlowMaker, Pass
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.testing import check_dialect
from dragoman.testing.samples import samples

# 2025.1 has one line for the shell where the vocabulary has a program, its words and its variables.
REWORDED = {
    "2025.1": ("terminal/create.command", "terminal/create.args[]", "terminal/create.env"),
    # The emulators carry modes, the end of a turn and the version. A v1 diff becomes a patch, a client's terminal its
    # name; a question about a command has no tool call of its own.
    "v2": (
        "initialize.agentCapabilities.mcpCapabilities.sse",
        "initialize.clientCapabilities.fs",
        "initialize.clientCapabilities.terminal",
        "initialize.protocolVersion",
        "session/fork.configOptions[]",
        "session/fork.modes",
        "session/load.configOptions[]",
        "session/load.modes",
        "session/new.configOptions[]",
        "session/new.modes",
        "session/prompt.stopReason",
        "session/prompt.usage",
        "session/request_permission.toolCall.capabilities",
        "session/request_permission.toolCall.clear",
        "session/request_permission.toolCall.content",
        "session/request_permission.toolCall.content[].newText",
        "session/request_permission.toolCall.content[].oldText",
        "session/request_permission.toolCall.content[].path",
        "session/request_permission.toolCall.content[].terminalId",
        "session/request_permission.toolCall.content[].type",
        "session/request_permission.toolCall.kind",
        "session/request_permission.toolCall.locations",
        "session/request_permission.toolCall.name",
        "session/request_permission.toolCall.rawInput.any",
        "session/request_permission.toolCall.rawOutput",
        "session/request_permission.toolCall.status",
        "session/resume.configOptions[]",
        "session/resume.modes",
        "session/set_config_option.type",
        "session/update.update.clear",
        "session/update.update.content.newText",
        "session/update.update.content.oldText",
        "session/update.update.content.path",
        "session/update.update.content.terminalId",
        "session/update.update.content.type",
        "session/update.update.content[].newText",
        "session/update.update.content[].oldText",
        "session/update.update.content[].path",
        "session/update.update.content[].terminalId",
        "session/update.update.content[].type",
        "session/update.update.sessionUpdate",
    ),
}


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_our_own_dialects_pass(name: str) -> None:
    check_dialect(load_dialect(name), reworded=REWORDED.get(name, ()))


def test_every_type_of_the_table_has_samples_that_it_accepts() -> None:
    for row in METHODS.values():
        for kind in (row.params, row.result):
            if kind not in (None, Any):
                assert samples(kind), f"{row.name} has no sample of {kind}"
                for value in samples(kind):
                    msgspec.convert(value, kind)


def test_every_kind_of_update_is_among_the_samples() -> None:
    kinds = {value["update"]["sessionUpdate"] for value in samples(METHODS[Side.CLIENT, "session/update"].params)}
    assert {"agent_message_chunk", "plan", "tool_call", "tool_call_update", "usage_update"} <= kinds


V1 = load_dialect("v1")


def changed(**parts: Any) -> Dialect:
    """v1 with something broken."""
    return Dialect(**{**{name: getattr(V1, name) for name in Dialect.__struct_fields__}, "name": "mine", **parts})


def lowering(change: Callable[[Side, str, Any], tuple[str, Any]]) -> Dialect:
    return changed(lower_call=change)


def loses_the_mode(side: Side, method: str, params: Any) -> tuple[str, Any]:
    name, lowered = V1.lower_call(side, method, params)
    if isinstance(lowered, dict):
        lowered = {key: item for key, item in lowered.items() if key != "modeId"}
    return name, lowered


def changes_its_input(side: Side, method: str, params: Any) -> tuple[str, Any]:
    if isinstance(params, dict):
        params["seen"] = True
    return V1.lower_call(side, method, params)


def trips_over_what_is_odd(side: Side, method: str, params: Any) -> tuple[str, Any]:
    return V1.lift_call(side, method, {**params})


def reads_cancel_as_close(side: Side, method: str, params: Any) -> tuple[str, Any]:
    return V1.lift_call(side, "session/close" if method == "session/cancel" else method, params)


_numbers = count()


def counts_aloud(side: Side, method: str, params: Any) -> tuple[str, Any]:
    name, lowered = V1.lower_call(side, method, params)
    return name, {**lowered, "number": next(_numbers)} if isinstance(lowered, dict) else lowered


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (lowering(loses_the_mode), "modeId"),
        (lowering(changes_its_input), "changed its input"),
        (lowering(counts_aloud), "is not deterministic"),
        (lowering(lambda side, method, params: (method, {"x": object})), "is not JSON"),
        (changed(lift_call=trips_over_what_is_odd), "raised TypeError"),
        (changed(lift_call=reads_cancel_as_close), "lifted as session/close"),
        (changed(error_codes={"invented": 1}), "unknown error kinds: .'invented'"),
        (changed(error_codes={}), "no error code for"),
        (changed(chunk_forms=load_dialect("crow").chunk_forms), "in two ways"),
    ],
)
def test_a_broken_codec_fails(broken: Dialect, found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        check_dialect(broken)


class Sharing(Emulator):
    """Shares state between connections."""

    observed: ClassVar[list[str]] = []

    def prompt(self, params: Any) -> Flow:
        self.observed.append(params.session_id)
        params.session_id += f"-{len(self.observed)}"
        return (yield Pass(params))

    incoming: ClassVar[dict[str, FlowMaker]] = {"session/prompt": prompt}


class Shouting(Emulator):
    """Yields something that is not an effect."""

    def prompt(self, params: Any) -> Flow:
        yield "print this"

    incoming: ClassVar[dict[str, FlowMaker]] = {"session/prompt": prompt}


class Confused(Emulator):
    """Has a flow for a method of the wrong side."""

    outgoing: ClassVar[dict[str, FlowMaker]] = {"session/prompt": Shouting.prompt}


@pytest.mark.parametrize(
    ("emulator", "found"),
    [(Sharing, "differs between two connections"), (Shouting, "not an effect"), (Confused, "never receives")],
)
def test_an_emulator_that_is_not_pure_fails(emulator: type[Emulator], found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        check_dialect(changed(emulators={Side.CLIENT: emulator}))
