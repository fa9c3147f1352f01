"""Models as a config option: for banjo peers, and v1 agents that still have models (docs/protocol/peers.md#models).

The vocabulary sends all options at once, banjo one model at a time (docs/protocol/dialect-matrix.md#models). For each
session with models this keeps an agent's current options, or a client's model option and its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from dragoman.dialect.emulator import (
    Emulator,
    EmulatorSettings,
    Flow,
    FlowMaker,
    Pass,
    ResultObserver,
    SendNotification,
    SendRequest,
)
from dragoman.dialect.reshape import ABSENT, INFERRED_KEY, SIDE_DATA_KEY, Object
from dragoman.dialect.side_data import get_member, inferred_members, side_data_of, with_members, with_side_data
from dragoman.dialect.text_chunk import Chunk
from dragoman.schema.base import Unknown, to_json
from dragoman.schema.config import (
    ConfigCategory,
    ConfigChoice,
    ConfigType,
    SessionConfigOption,
    SetConfigOptionResult,
)
from dragoman.schema.lenient import read_leniently
from dragoman.schema.side import Side
from dragoman.schema.update import ConfigOptionUpdate

_SET_OPTION: Final = "session/set_config_option"


class AgentEmulator(Emulator):
    """For an agent that may have models; watches updates only once it has shown some."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self._options: dict[str, list[Any]] = {}

    def _note_new_session(self, result: Any) -> None:
        self._remember_options(get_member(result, "session_id"), result)

    def _reopen_session(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._remember_options(params.session_id, result)
        return result

    def _close_session(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._options.pop(params.session_id, None)
        return result

    def _remember_options(self, session: Any, result: Any) -> None:
        options = get_member(result, "config_options") or []
        if any(map(_is_models_option, options)) or "models" in side_data_of(result):
            self._options[session] = [_parse_option(each) for each in options]
            self.incoming = self.incoming_with_models  # type: ignore[misc]  # v1's hot path has no flow before

    def _set_option(self, params: Any) -> Flow:
        session = params.session_id
        options = self._options.get(session)
        if options is None or not any(
            _is_models_option(each) and get_member(each, "id") == params.config_id for each in options
        ):
            result = yield Pass(params)
            if options is None:
                return result
            if "configOptions" in inferred_members(result):  # the agent did not repeat them
                return with_members(result, config_options=self._set_value(session, params.config_id, params.value))
            return with_members(
                result, config_options=self._complete_options(session, get_member(result, "config_options"))
            )
        yield SendRequest("session/set_model", {"sessionId": session, "modelId": params.value})
        return SetConfigOptionResult(config_options=self._switch_model(session, params.value))

    def _update(self, params: Any) -> Flow:
        session, update = params.session_id, params.update
        if type(update) is ConfigOptionUpdate:
            model = side_data_of(update).get("currentModelId")
        elif type(update) is Unknown and update.tag == "current_model_update":
            model = update.raw.get("currentModelId")  # v1 updates are not lifted before they come here
        else:
            yield Pass(params)
            return
        if isinstance(model, str):
            update = ConfigOptionUpdate(config_options=self._switch_model(session, model))
        elif type(update) is ConfigOptionUpdate and session in self._options:
            update = with_members(update, config_options=self._complete_options(session, update.config_options))
        yield Pass(with_members(params, update=update))

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Return the chunk: text does not affect models."""
        return chunk

    def _switch_model(self, session: str, model: Any) -> list[Any]:
        """Return all options with another model; of a session without a known one, with an option for it."""
        options = self._options.setdefault(session, [])
        option = next((each for each in options if _is_model_choice(each)), None)
        if option is None:
            options.append(option := _single_model_option(model))
        return self._set_value(session, get_member(option, "id"), model)

    def _set_value(self, session: str, id: str, value: Any) -> list[Any]:
        """Return all options, with this value of one."""
        self._options[session] = [
            with_members(each, current_value=value) if get_member(each, "id") == id else each
            for each in self._options[session]
        ]
        return list(self._options[session])

    def _complete_options(self, session: str, options: Any) -> list[Any]:
        """Return the agent's options together with the one for its models."""
        options = list(options or ())
        if not any(map(_is_model_choice, options)):
            options += filter(_is_models_option, self._options[session])
        self._options[session] = options
        return list(options)

    result_observers: ClassVar[Mapping[str, ResultObserver]] = {
        "session/new": _note_new_session,
        "session/fork": _note_new_session,
    }
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {
        "session/load": _reopen_session,
        "session/resume": _reopen_session,
        "session/close": _close_session,
        "session/delete": _close_session,
        _SET_OPTION: _set_option,
    }
    incoming_with_models: ClassVar[Mapping[str, FlowMaker]] = {"session/update": _update}


class BanjoAgentEmulator(AgentEmulator):
    """For a banjo agent, which does not announce unstable_resumeSession (docs/protocol/dialects.md#banjo-methods)."""

    unannounced_capabilities: ClassVar[frozenset[str]] = frozenset({"agent.sessionCapabilities.resume"})
    incoming: ClassVar[Mapping[str, FlowMaker]] = AgentEmulator.incoming_with_models

    def _remember_options(self, session: Any, result: Any) -> None:
        """Remember all options: it may name its model later, and an update of the model repeats no other option."""
        self._options[session] = [_parse_option(each) for each in get_member(result, "config_options") or []]


class SelectedModel(NamedTuple):
    """The model option, and its value."""

    option_id: str
    value: Any


class ClientEmulator(Emulator):
    """For a banjo client."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self._models: dict[str, SelectedModel] = {}

    def _new_session(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._remember_model(get_member(result, "session_id"), get_member(result, "config_options"))
        return result

    def _reopen_session(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._remember_model(params.session_id, get_member(result, "config_options"))
        return result

    def _close_session(self, params: Any) -> Flow:
        result = yield Pass(params)
        self._models.pop(params.session_id, None)
        return result

    def _remember_model(self, session: Any, options: Any) -> SelectedModel | None:
        option = next((each for each in options or () if _is_model_choice(each)), None)
        if option is None:
            return None
        model = self._models[session] = SelectedModel(get_member(option, "id"), get_member(option, "current_value"))
        return model

    def _set_option(self, params: Any) -> Flow:
        is_model = side_data_of(params).get("form") == "set_model"
        model = self._models.get(params.session_id)
        if is_model and model is not None:  # an agent's model option may have any id
            params = with_side_data(with_members(params, config_id=model.option_id), form=ABSENT)
        result = yield Pass(params)
        now = self._remember_model(params.session_id, get_member(result, "config_options"))
        if is_model and now is not None and now != model:
            yield SendNotification("session/update", _model_update(params.session_id, now.value))
        if is_model:
            return {}
        rest = [each for each in get_member(result, "config_options") or () if not _is_models_option(each)]
        return with_members(result, config_options=rest)  # models are not an option for a banjo client

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Return the chunk: text does not affect models."""
        return chunk

    def _update(self, params: Any) -> Flow:
        """Send options as options; a changed model also in banjo's own form."""
        session, update = params.session_id, params.update
        before = self._models.get(session)
        after = self._remember_model(session, update.config_options) if type(update) is ConfigOptionUpdate else None
        if after is None:
            yield Pass(params)
            return
        rest = [each for each in update.config_options if not _is_models_option(each)]
        if len(rest) == len(update.config_options):
            yield Pass(params)
        elif rest:  # what was under `models` in the session setup is not an option for a banjo client
            yield Pass(with_members(params, update=with_members(update, config_options=rest)))
        if before is None or before.value != after.value:
            yield SendNotification("session/update", _model_update(session, after.value))

    incoming: ClassVar[Mapping[str, FlowMaker]] = {
        "session/new": _new_session,
        "session/fork": _new_session,
        "session/load": _reopen_session,
        "session/resume": _reopen_session,
        "session/close": _close_session,
        "session/delete": _close_session,
        _SET_OPTION: _set_option,
    }
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {"session/update": _update}


def _parse_option(option: Any) -> Any:
    """Parse an option; a relay passes plain JSON."""
    return read_leniently(SessionConfigOption, option)[0] if isinstance(option, dict) else option


def _is_models_option(option: Any) -> bool:
    """Return whether an option represents `models`."""
    return side_data_of(option).get("form") == "models"


def _is_model_choice(option: Any) -> bool:
    return _is_models_option(option) or (
        get_member(option, "category") == ConfigCategory.MODEL and get_member(option, "type") == ConfigType.SELECT
    )


def _single_model_option(model: Any) -> SessionConfigOption:
    return SessionConfigOption(
        id="model",
        name="Model",
        category=ConfigCategory.MODEL,
        type=ConfigType.SELECT,
        current_value=model,
        options=[ConfigChoice(name=str(model), value=str(model))],
        meta={SIDE_DATA_KEY: {"form": "models"}},
    )


def _model_update(session: str, model: Any) -> Object:
    """Return an update that only names the model: banjo's current_model_update."""
    side_data = {SIDE_DATA_KEY: {"currentModelId": to_json(model), INFERRED_KEY: ["configOptions"]}}
    update = {"sessionUpdate": "config_option_update", "configOptions": [], "_meta": side_data}
    return {"sessionId": session, "update": update}
