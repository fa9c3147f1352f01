"""banjo spelled: v1 and the differences of seed 003, by table.

JSON builtins in, JSON builtins out; pure. Reading is v1's reading, which knows banjo's extras; writing is
v1's writing plus the rows below.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.banjo.tables import DIALECT, STOP_ERRORS
from dragoman.dialect.reshape import ABSENT, INFERRED, Json, Lowered, Object, refuse_encoding, side_of
from dragoman.dialect.side_data import opened, plain
from dragoman.dialect.v1 import codec as v1
from dragoman.dialect.v1.codec import lift_call, lift_result
from dragoman.dialect.v1.tables import EXTENSION, chunk_text
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


def _lower_entry(entry: Json, place: int) -> Json:
    if not isinstance(entry, dict):
        return entry
    low = Lowered(entry)
    low.put("id", low.recall("id", str(place)))
    return low.done(("priority",))


def _is_model_change(update: Object) -> bool:
    """Whether only the model is known: then the list of options is empty because nobody said it."""
    side = side_of(update)
    noted = side.get(INFERRED)
    return "currentModelId" in side and isinstance(noted, list) and "configOptions" in noted


def _lower_model_change(update: Object) -> Object:
    low = Lowered(update)
    low.take("sessionUpdate")
    low.put("sessionUpdate", "current_model_update")
    low.restore(("currentModelId",))
    return low.done()


def lower_models(result: Object) -> Object:
    """A session's setup; an option of category model that nobody marked stays and is said as models too."""
    given = result.get("configOptions")
    options: list[Json] = given if isinstance(given, list) else []
    listed = [option for option in options if isinstance(option, dict)]
    low = Lowered(result)
    said = low.recall("models")
    marked = next((option for option in listed if side_of(option).get("form") == "models"), None)
    if marked is not None:
        rest = [option for option in options if option is not marked]
        low.put("models", _models(marked))
        low.take("configOptions")
        if rest or "configOptions" not in low.inferred:
            low.put("configOptions", rest)
    elif said is not ABSENT:
        low.put("models", said)
    elif choice := next((option for option in listed if _chooses_model(option)), None):
        low.put("models", _models({name: choice[name] for name in _SHARED if name in choice}))
    return low.done()


# What an option shares with models; all else of an option that stays is said by the option.
_SHARED = ("currentValue", "options")


def _chooses_model(option: Object) -> bool:
    return option.get("category") == "model" and option.get("type") == "select"


def _models(option: Object) -> Object:
    low = Lowered(option)
    low.recall("form")
    key = low.recall("modelKey", "id")
    for name in ("id", "name", "category", "type"):
        low.take(name)
    choices, current = low.take("options"), low.take("currentValue")
    if isinstance(choices, list):
        choices = [_model(choice, key if isinstance(key, str) else "id") for choice in _flat(choices)]
    low.put("availableModels", choices)
    low.put("currentModelId", current)
    return low.done()


def _flat(choices: list[Json]) -> list[Json]:
    """The choices without their groups, which models do not have."""
    flat: list[Json] = []
    for choice in choices:
        inner = choice.get("options") if isinstance(choice, dict) and "group" in choice else None
        flat.extend(inner if isinstance(inner, list) else (choice,))
    return flat


def _model(choice: Json, key: str) -> Json:
    if not isinstance(choice, dict):
        return choice
    low = Lowered(choice)
    low.put(key, low.take("value"))
    return low.done()


__all__ = ["lift_call", "lift_result", "lower_call", "lower_result"]


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """A call of the vocabulary as a banjo peer, which is `side`, expects it."""
    name = _spelled(side, method, params)
    if not isinstance(params, dict) or method.startswith(EXTENSION):
        return name, params
    if method == "session/update" and chunk_text(params) is not None:
        return name, params
    refuse_encoding(DIALECT, method, params)
    rule = LOWER.get((side, name))
    return name, plain(rule(params) if rule else params)


def lower_result(side: Side, method: str, result: Json) -> Json:
    """What `side` answers to a request of a banjo peer."""
    if side is Side.AGENT and method == "session/prompt":
        v1.refuse_stop(DIALECT, result, STOP_ERRORS)
    rule = LOWER_RESULT.get((side, method))
    return plain(rule(result) if rule and isinstance(result, dict) else result)


def _spelled(side: Side, method: str, params: Json) -> str:
    if side is Side.AGENT and method == "session/resume":
        return "unstable_resumeSession"
    if side is Side.AGENT and method == "session/set_config_option" and side_of(params).get("form") == "set_model":
        return "session/set_model"
    return method


def _lower_new(params: Object) -> Object:
    return opened(params, ours=("mcpServers",)).done()


def _lower_set_mode(params: Object) -> Object:
    low = opened(params)
    if low.recall("legacy") is True:
        low.move({"mode": "modeId"})
    return low.done()


def _lower_set_model(params: Object) -> Object:
    low = opened(params)
    low.recall("form")
    low.take("configId")
    low.move({"modelId": "value"})
    return low.done()


def _lower_options(result: Object) -> Object:
    return Lowered(result).done()


LOWER: Final[v1.Rules] = {
    **v1.LOWER,
    (Side.AGENT, "session/new"): _lower_new,
    (Side.AGENT, "session/set_mode"): _lower_set_mode,
    (Side.AGENT, "session/set_model"): _lower_set_model,
    (Side.CLIENT, "session/update"): lower_update,
}
LOWER_RESULT: Final[v1.Rules] = {
    (Side.AGENT, "session/new"): lower_models,
    (Side.AGENT, "session/load"): lower_models,
    (Side.AGENT, "session/resume"): lower_models,
    (Side.AGENT, "session/fork"): lower_models,
    (Side.AGENT, "session/set_config_option"): _lower_options,
}
