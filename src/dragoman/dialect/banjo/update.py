"""session/update as banjo writes it: plan entries with an id and no priority, current_model_update.

Vocabulary params in, banjo params out. The reading is v1's (v1/extras.py).
"""

from __future__ import annotations

from dragoman.dialect.reshape import INFERRED, Json, Lowered, Object, side_of
from dragoman.dialect.v1 import codec as v1


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
