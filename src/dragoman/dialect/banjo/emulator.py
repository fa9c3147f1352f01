"""What must be remembered where models are an option: banjo peers, and v1 agents that still have models (peers.md 20).

The vocabulary says all options at once, banjo says one model at a time (reference 5.14-19). Kept for each session that
has models: of an agent its options as they stand, of a client which option is the model and what it is set to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from dragoman.dialect.emulator import Ask, Flow, FlowMaker, Heed, Ledger, Pass, Send, Settings
from dragoman.dialect.reshape import ABSENT, INFERRED, SIDE, Object
from dragoman.dialect.side_data import changed, member, noted, side
from dragoman.dialect.text_chunk import Chunk
from dragoman.schema.base import Unknown, to_json
from dragoman.schema.config import (
    ConfigCategory,
    ConfigChoice,
    ConfigType,
    SessionConfigOption,
    SetConfigOptionResult,
)
from dragoman.schema.lenient import read
from dragoman.schema.side import Side
from dragoman.schema.update import ConfigOptionUpdate

_SET: Final = "session/set_config_option"


def open_ledger(peer: Side, settings: Settings) -> Ledger | None:
    """The memory of one connection whose other end plays `peer` and speaks banjo."""
    return (ClientLedger if peer is Side.CLIENT else BanjoLedger)(peer, settings)


class AgentLedger(Ledger):
    """An agent at the other end that may have models; watches updates only once it has shown some."""

    def __init__(self, peer: Side, settings: Settings) -> None:
        super().__init__(peer, settings)
        self._options: dict[str, list[Any]] = {}

    def _made(self, result: Any) -> None:
        self._remember(member(result, "session_id"), result)

    def _opened(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._remember(params.session_id, result)
        return result

    def _left(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._options.pop(params.session_id, None)
        return result

    def _remember(self, session: Any, result: Any) -> None:
        options = member(result, "config_options") or []
        if any(map(_is_models, options)):
            self._options[session] = [_typed(each) for each in options]
            self.incoming = self.watching  # type: ignore[misc]  # v1's hot path has no flow before

    def _set(self, params: Any) -> Flow:
        session = params.session_id
        options = self._options.get(session)
        if options is None or not any(_is_models(each) and member(each, "id") == params.config_id for each in options):
            result = yield Pass(params)
            if options is None:
                return result
            return changed(result, config_options=self._complete(session, member(result, "config_options")))
        yield Ask("session/set_model", {"sessionId": session, "modelId": params.value})
        return SetConfigOptionResult(config_options=self._switch(session, params.value))

    def _update(self, params: Any) -> Flow:
        session, update = params.session_id, params.update
        if type(update) is ConfigOptionUpdate:
            model = side(update).get("currentModelId")
        elif type(update) is Unknown and update.tag == "current_model_update":
            model = update.raw.get("currentModelId")  # v1 updates are not looked at before they come here
        else:
            yield Pass(params)
            return
        if isinstance(model, str):
            update = ConfigOptionUpdate(config_options=self._switch(session, model))
        elif type(update) is ConfigOptionUpdate and session in self._options:
            update = changed(update, config_options=self._complete(session, update.config_options))
        yield Pass(changed(params, update=update))

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Pieces of text say nothing of models."""
        return chunk

    def _switch(self, session: str, model: Any) -> list[Any]:
        """All options, with another model; of a session that nobody opened here at least the model is known."""
        options = self._options.get(session) or [_only(model)]
        options = [changed(each, current_value=model) if _is_models(each) else each for each in options]
        self._options[session] = options
        return list(options)

    def _complete(self, session: str, said: Any) -> list[Any]:
        """The options that the agent says together with the one that stands for its models."""
        said = list(said or ())
        if not any(map(_is_models, said)):
            said += filter(_is_models, self._options[session])
        self._options[session] = said
        return list(said)

    heeded: ClassVar[Mapping[str, Heed]] = {"session/new": _made, "session/fork": _made}
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {
        "session/load": _opened,
        "session/resume": _opened,
        "session/close": _left,
        "session/delete": _left,
        _SET: _set,
    }
    watching: ClassVar[Mapping[str, FlowMaker]] = {"session/update": _update}


class BanjoLedger(AgentLedger):
    """A banjo agent, whose unstable_resumeSession nobody announces (seed 003 lists it without a capability)."""

    unannounced: ClassVar[frozenset[str]] = frozenset({"agent.sessionCapabilities.resume"})


class Model(NamedTuple):
    """Which option is the model, and what it is set to."""

    option: str
    value: Any


class ClientLedger(Ledger):
    """A banjo client at the other end."""

    def __init__(self, peer: Side, settings: Settings) -> None:
        super().__init__(peer, settings)
        self._models: dict[str, Model] = {}

    def _made(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._remember(member(result, "session_id"), member(result, "config_options"))
        return result

    def _opened(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._remember(params.session_id, member(result, "config_options"))
        return result

    def _left(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._models.pop(params.session_id, None)
        return result

    def _remember(self, session: Any, options: Any) -> Model | None:
        option = next((each for each in options or () if _chooses_model(each)), None)
        if option is None:
            return None
        model = self._models[session] = Model(member(option, "id"), member(option, "current_value"))
        return model

    def _set(self, params: Any) -> Flow:
        is_model = side(params).get("form") == "set_model"
        model = self._models.get(params.session_id)
        if is_model and model is not None:  # an agent's option for the model may have any id
            params = noted(changed(params, config_id=model.option), form=ABSENT)
        result = yield Pass(params)
        now = self._remember(params.session_id, member(result, "config_options"))
        if is_model and now is not None and now != model:
            yield Send("session/update", _model_change(params.session_id, now.value))
        if is_model:
            return {}
        rest = [each for each in member(result, "config_options") or () if not _is_models(each)]
        return changed(result, config_options=rest)  # models are no option for a banjo client

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Pieces of text say nothing of models."""
        return chunk

    def _update(self, params: Any) -> Flow:
        """Options are said as options; that the model is another one is said once more in banjo's own way."""
        session, update = params.session_id, params.update
        before = self._models.get(session)
        after = self._remember(session, update.config_options) if type(update) is ConfigOptionUpdate else None
        if after is None:
            yield Pass(params)
            return
        rest = [each for each in update.config_options if not _is_models(each)]
        if len(rest) == len(update.config_options):
            yield Pass(params)
        elif rest:  # what stood under `models` when the session was opened is no option for a banjo client
            yield Pass(changed(params, update=changed(update, config_options=rest)))
        if before is None or before.value != after.value:
            yield Send("session/update", _model_change(session, after.value))

    incoming: ClassVar[Mapping[str, FlowMaker]] = {
        "session/new": _made,
        "session/fork": _made,
        "session/load": _opened,
        "session/resume": _opened,
        "session/close": _left,
        "session/delete": _left,
        _SET: _set,
    }
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {"session/update": _update}


def _typed(option: Any) -> Any:
    """An option as its Struct: what passes a relay is plain JSON."""
    return read(SessionConfigOption, option)[0] if isinstance(option, dict) else option


def _is_models(option: Any) -> bool:
    """Whether an option stands for `models`."""
    return side(option).get("form") == "models"


def _chooses_model(option: Any) -> bool:
    return _is_models(option) or (
        member(option, "category") == ConfigCategory.MODEL and member(option, "type") == ConfigType.SELECT
    )


def _only(model: Any) -> SessionConfigOption:
    return SessionConfigOption(
        id="model",
        name="Model",
        category=ConfigCategory.MODEL,
        type=ConfigType.SELECT,
        current_value=model,
        options=[ConfigChoice(name=str(model), value=str(model))],
        meta={SIDE: {"form": "models"}},
    )


def _model_change(session: str, model: Any) -> Object:
    """An update in which only the model is known: banjo's current_model_update."""
    beside = {SIDE: {"currentModelId": to_json(model), INFERRED: ["configOptions"]}}
    update = {"sessionUpdate": "config_option_update", "configOptions": [], "_meta": beside}
    return {"sessionId": session, "update": update}
