"""Models as banjo writes them: the option that stands for them in the vocabulary becomes `models` again.

A vocabulary result in, a banjo result out. The reading is v1's (v1/extras.py), which every banjo peer shares.
"""

from __future__ import annotations

from dragoman.dialect.reshape import ABSENT, Json, Lowered, Object, side_of


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
