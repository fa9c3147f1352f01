"""banjo spelled: v1 and the differences of seed 003, by table.

JSON builtins in, JSON builtins out; pure. Reading is v1's reading, which knows banjo's extras; writing is
v1's writing plus the rows below.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.banjo.tables import DIALECT, STOP_ERRORS
from dragoman.dialect.reshape import ABSENT, INFERRED_KEY, Json, Lowered, Object, check_encoding, json_side_data
from dragoman.dialect.side_data import begin_lowering, strip_private
from dragoman.dialect.v1 import codec as v1
from dragoman.dialect.v1.codec import lift_call, lift_result
from dragoman.dialect.v1.tables import EXTENSION_PREFIXES, chunk_text
from dragoman.schema.side import Side


def lower_update(params: Object) -> Object:
    """An update for a banjo client."""
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
    low = Lowered(entry)
    low.put("id", low.take_side_data("id", str(position)))
    return low.build(("priority",))


def _is_model_change(update: Object) -> bool:
    """Whether only the model is known: then the list of options is empty because nobody said it."""
    side = json_side_data(update)
    noted = side.get(INFERRED_KEY)
    return "currentModelId" in side and isinstance(noted, list) and "configOptions" in noted


def _lower_model_change(update: Object) -> Object:
    low = Lowered(update)
    low.take("sessionUpdate")
    low.put("sessionUpdate", "current_model_update")
    low.move_from_side_data(("currentModelId",))
    return low.build()


def lower_models(result: Object) -> Object:
    """A session's setup; an option of category model that nobody marked stays and is said as models too."""
    given = result.get("configOptions")
    options: list[Json] = given if isinstance(given, list) else []
    listed = [option for option in options if isinstance(option, dict)]
    low = Lowered(result)
    said = low.take_side_data("models")
    marked = next((option for option in listed if json_side_data(option).get("form") == "models"), None)
    if marked is not None:
        rest = [option for option in options if option is not marked]
        low.put("models", _lower_option(marked))
        low.take("configOptions")
        if rest or "configOptions" not in low.inferred:
            low.put("configOptions", rest)
    elif said is not ABSENT:
        low.put("models", said)
    elif choice := next((option for option in listed if _is_model_choice(option)), None):
        low.put("models", _lower_option({name: choice[name] for name in _SHARED_MEMBERS if name in choice}))
    return low.build()


# What an option shares with models; all else of an option that stays is said by the option.
_SHARED_MEMBERS = ("currentValue", "options")


def _is_model_choice(option: Object) -> bool:
    return option.get("category") == "model" and option.get("type") == "select"


def _lower_option(option: Object) -> Object:
    low = Lowered(option)
    low.take_side_data("form")
    key = low.take_side_data("modelKey", "id")
    for name in ("id", "name", "category", "type"):
        low.take(name)
    choices, current = low.take("options"), low.take("currentValue")
    if isinstance(choices, list):
        choices = [_lower_choice(choice, key if isinstance(key, str) else "id") for choice in _flatten_groups(choices)]
    low.put("availableModels", choices)
    low.put("currentModelId", current)
    return low.build()


def _flatten_groups(choices: list[Json]) -> list[Json]:
    """The choices without their groups, which models do not have."""
    flat: list[Json] = []
    for choice in choices:
        inner = choice.get("options") if isinstance(choice, dict) and "group" in choice else None
        flat.extend(inner if isinstance(inner, list) else (choice,))
    return flat


def _lower_choice(choice: Json, key: str) -> Json:
    if not isinstance(choice, dict):
        return choice
    low = Lowered(choice)
    low.put(key, low.take("value"))
    return low.build()


__all__ = ["lift_call", "lift_result", "lower_call", "lower_result"]


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """A call of the vocabulary as a banjo peer, which is `side`, expects it."""
    name = _wire_method(side, method, params)
    if not isinstance(params, dict) or method.startswith(EXTENSION_PREFIXES):
        return name, params
    if method == "session/update" and chunk_text(params) is not None:
        return name, params
    check_encoding(DIALECT, method, params)
    rule = LOWER.get((side, name))
    return name, strip_private(rule(params) if rule else params)


def lower_result(side: Side, method: str, result: Json) -> Json:
    """What `side` answers to a request of a banjo peer."""
    if side is Side.AGENT and method == "session/prompt":
        v1.check_stop_reason(DIALECT, result, STOP_ERRORS)
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
    low = begin_lowering(params)
    if low.take_side_data("legacy") is True:
        low.rename({"mode": "modeId"})
    return low.build()


def _lower_set_model(params: Object) -> Object:
    low = begin_lowering(params)
    low.take_side_data("form")
    low.take("configId")
    low.rename({"modelId": "value"})
    return low.build()


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
