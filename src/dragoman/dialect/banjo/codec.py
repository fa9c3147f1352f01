"""The banjo codec: v1 with the differences of docs/protocol/dialects.md#banjo, by table.

JSON in, JSON out; pure. Reading is v1's, which knows banjo's additions; writing is v1's plus the rows below.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.banjo.tables import NAME, STOP_ERRORS
from dragoman.dialect.reshape import ABSENT, INFERRED_KEY, Json, Lowered, Object, check_encoding, json_side_data
from dragoman.dialect.side_data import begin_lowering, strip_private
from dragoman.dialect.v1 import codec as v1
from dragoman.dialect.v1.tables import EXTENSION_PREFIXES, V2_METHODS, chunk_text
from dragoman.errors import Unsayable
from dragoman.schema.side import Side


def lower_update(params: Object) -> Object:
    """Lower an update for a banjo client."""
    update = params.get("update")
    if not isinstance(update, dict):
        return params
    match update.get("sessionUpdate"):
        case "plan":
            return {**params, "update": _lower_plan(update)}
        case "config_option_update" if _is_model_change(update):
            return {**params, "update": _lower_model_change(update)}
    return v1.lower_update(params)


def _lower_plan(update: Object) -> Object:
    entries = update.get("entries")
    if not isinstance(entries, list):
        return update
    return {**update, "entries": [_lower_entry(entry, place) for place, entry in enumerate(entries, 1)]}


def _lower_entry(entry: Json, position: int) -> Json:
    if not isinstance(entry, dict):
        return entry
    lowered = Lowered(entry)
    lowered.put("id", lowered.take_side_data("id", str(position)))
    return lowered.build(("priority",))


def _is_model_change(update: Object) -> bool:
    """Return whether only the model is known: then the option list is empty because nobody sent it."""
    side = json_side_data(update)
    noted = side.get(INFERRED_KEY)
    return "currentModelId" in side and isinstance(noted, list) and "configOptions" in noted


def _lower_model_change(update: Object) -> Object:
    lowered = Lowered(update)
    lowered.take("sessionUpdate")
    lowered.put("sessionUpdate", "current_model_update")
    lowered.move_from_side_data(("currentModelId",))
    return lowered.build()


def lower_models(result: Object) -> Object:
    """Lower a session's setup; an unmarked option of category model stays and is also sent as models."""
    given = result.get("configOptions")
    options: list[Json] = given if isinstance(given, list) else []
    listed = [option for option in options if isinstance(option, dict)]
    lowered = Lowered(result)
    said = lowered.take_side_data("models")
    marked = next((option for option in listed if json_side_data(option).get("form") == "models"), None)
    if marked is not None:
        rest = [option for option in options if option is not marked]
        lowered.put("models", _lower_option(marked))
        lowered.take("configOptions")
        if rest or "configOptions" not in lowered.inferred:
            lowered.put("configOptions", rest)
    elif said is not ABSENT:
        lowered.put("models", said)
    elif choice := next((option for option in listed if _is_model_choice(option)), None):
        lowered.put("models", _lower_option({name: choice[name] for name in _SHARED_MEMBERS if name in choice}))
    return lowered.build()


# What an option shares with models; the rest of an option that stays is sent with the option.
_SHARED_MEMBERS = ("currentValue", "options")


def _is_model_choice(option: Object) -> bool:
    return option.get("category") == "model" and option.get("type") == "select"


def _lower_option(option: Object) -> Object:
    lowered = Lowered(option)
    lowered.take_side_data("form")
    key = lowered.take_side_data("modelKey", "id")
    for name in ("id", "name", "category", "type"):
        lowered.take(name)
    choices, current = lowered.take("options"), lowered.take("currentValue")
    if isinstance(choices, list):
        choices = [_lower_choice(choice, key if isinstance(key, str) else "id") for choice in _flatten_groups(choices)]
    lowered.put("availableModels", choices)
    lowered.put("currentModelId", current)
    return lowered.build()


def _flatten_groups(choices: list[Json]) -> list[Json]:
    """Return the choices without groups, which models lack."""
    flat: list[Json] = []
    for choice in choices:
        inner = choice.get("options") if isinstance(choice, dict) and "group" in choice else None
        flat.extend(inner if isinstance(inner, list) else (choice,))
    return flat


def _lower_choice(choice: Json, key: str) -> Json:
    if not isinstance(choice, dict):
        return choice
    lowered = Lowered(choice)
    lowered.put(key, lowered.take("value"))
    return lowered.build()


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lower a call for a banjo peer, which is `side`."""
    name = _wire_method(side, method, params)
    if not isinstance(params, dict) or method.startswith(EXTENSION_PREFIXES):
        return name, params
    if method == "session/update" and chunk_text(params) is not None:
        return name, params
    if method in V2_METHODS:
        raise Unsayable(NAME, method)
    check_encoding(NAME, method, params)
    rule = LOWER.get((side, name))
    return name, strip_private(rule(params) if rule else params)


def lower_result(side: Side, method: str, result: Json) -> Json:
    """Lower a result of `side` for a banjo peer."""
    if side is Side.AGENT and method == "session/prompt":
        v1.check_stop_reason(NAME, result, STOP_ERRORS)
    rule = LOWER_RESULT.get((side, method))
    return strip_private(rule(result) if rule and isinstance(result, dict) else result)


def _wire_method(side: Side, method: str, params: Json) -> str:
    if side is Side.AGENT and method == "session/resume":
        return "unstable_resumeSession"
    if (
        side is Side.AGENT
        and method == "session/set_config_option"
        and json_side_data(params).get("form") == "set_model"
    ):
        return "session/set_model"
    return method


def _lower_new(params: Object) -> Object:
    return begin_lowering(params, drop_inferred=("mcpServers",)).build()


def _lower_set_mode(params: Object) -> Object:
    lowered = begin_lowering(params)
    if lowered.take_side_data("legacy") is True:
        lowered.rename({"mode": "modeId"})
    return lowered.build()


def _lower_set_model(params: Object) -> Object:
    lowered = begin_lowering(params)
    lowered.take_side_data("form")
    lowered.take("configId")
    lowered.rename({"modelId": "value"})
    return lowered.build()


def _lower_options(result: Object) -> Object:
    return Lowered(result).build()


LOWER: Final[v1.ConversionTable] = {
    **v1.LOWER,
    (Side.AGENT, "session/new"): _lower_new,
    (Side.AGENT, "session/set_mode"): _lower_set_mode,
    (Side.AGENT, "session/set_model"): _lower_set_model,
    (Side.CLIENT, "session/update"): lower_update,
}
LOWER_RESULT: Final[v1.ConversionTable] = {
    (Side.AGENT, "session/new"): lower_models,
    (Side.AGENT, "session/load"): lower_models,
    (Side.AGENT, "session/resume"): lower_models,
    (Side.AGENT, "session/fork"): lower_models,
    (Side.AGENT, "session/set_config_option"): _lower_options,
}
