"""Read what banjo and some real peers add to official v1 (docs/protocol/dialects.md#banjo-models,
docs/protocol/peers.md#models).

Models become a config option, `session/set_model` sets that option, plan entries without a priority get one. An object
without additions is returned unchanged. Only banjo writes these additions.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object, with_json_side_data
from dragoman.errors import Kind, ProtocolError

MODEL_OPTION: Final = "model"
MAX_VERSION: Final = 65_535


def lift_initialize(params: Object) -> Object:
    """Treat a string version (`"1"`, or another protocol's date) as 1
    (docs/protocol/dialect-matrix.md#string-versions).
    """
    version = params.get("protocolVersion")
    check_version_range(version)
    if not isinstance(version, str):
        return params
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 6 else 1
    return with_json_side_data({**params, "protocolVersion": number}, version=version)


def check_version_range(version: Any) -> None:
    """Raise for a number that is no version: versions are uint16 (docs/protocol/initialize.md#params)."""
    if isinstance(version, int) and not 0 <= version <= MAX_VERSION:
        message = f"must be from 0 to {MAX_VERSION}, not {version}"
        errors = [{"path": "protocolVersion", "message": message}]
        raise ProtocolError(Kind.INVALID_PARAMS, f"protocolVersion {message}", {"errors": errors})


def lift_authenticate(params: Object) -> Object:
    """Lift authenticate without a method: banjo's params have no meaning."""
    if "methodId" in params:
        return params
    lifted = Lifted(params)
    lifted.infer("methodId", "")
    return lifted.build()


def lift_new(params: Object) -> Object:
    """Lift session/new: missing MCP servers mean none."""
    return params if "mcpServers" in params else _infer_empty_list(params, "mcpServers")


def lift_options(result: Object) -> Object:
    """Lift the `{}` result of session/set_model, where session/set_config_option returns all options."""
    return result if "configOptions" in result else _infer_empty_list(result, "configOptions")


def _infer_empty_list(obj: Object, name: str) -> Object:
    lifted = Lifted(obj)
    lifted.infer(name, [])
    return lifted.build()


def lift_set_mode(params: Object) -> Object:
    """Lift session/set_mode with the older `mode` for `modeId`."""
    if "modeId" in params or "mode" not in params:
        return params
    lifted = Lifted(params)
    lifted.rename({"mode": "modeId"})
    lifted.side_data["legacy"] = True
    return lifted.build()


def lift_set_model(params: Object) -> Object:
    """Lift session/set_model: set the option that represents the models."""
    lifted = Lifted(params)
    lifted.put("configId", MODEL_OPTION)
    lifted.rename({"modelId": "value"})
    lifted.side_data["form"] = "set_model"
    return lifted.build()


def lift_update(params: Object) -> Object:
    """Lift session/update: banjo's plans and its current_model_update."""
    update = params.get("update")
    if type(update) is not dict:
        return params
    kind = update.get("sessionUpdate")
    if kind == "plan":
        return _lift_plan(params, update)
    if kind == "current_model_update":
        lifted = Lifted(update)
        lifted.put("sessionUpdate", "config_option_update")
        lifted.infer("configOptions", [])
        lifted.move_to_side_data(("currentModelId",))
        return {**params, "update": lifted.build()}
    return params


def is_incomplete(frame: bytes) -> bool:
    """Return whether an update is a plan without priorities, as banjo sends it: official clients drop its entries."""
    if b'"plan"' not in frame:
        return False
    try:
        params = msgspec.json.decode(frame).get("params")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
        return False
    update = params.get("update") if isinstance(params, dict) else None
    if not isinstance(update, dict) or update.get("sessionUpdate") != "plan":
        return False
    return _lift_plan(params, update) is not params


def _lift_plan(params: Object, update: Object) -> Object:
    entries = update.get("entries")
    if not isinstance(entries, list):
        return params
    lifted = [_lift_entry(entry) for entry in entries]
    if all(new is old for new, old in zip(lifted, entries, strict=True)):
        return params
    return {**params, "update": {**update, "entries": lifted}}


def _lift_entry(entry: Json) -> Json:
    if not isinstance(entry, dict) or ("priority" in entry and "id" not in entry):
        return entry
    lifted = Lifted(entry)
    if "priority" not in entry:
        lifted.infer("priority", "medium")
    lifted.move_to_side_data(("id",))
    return lifted.build()


def lift_models(result: Object) -> Object:
    """Add a session's `models` as a config option, unless it already has one for the model."""
    models = result.get("models")
    if not isinstance(models, dict):
        return result
    lifted = Lifted(result)
    options = lifted.rest.get("configOptions")
    if options is not None and (not isinstance(options, list) or any(map(_is_model_option, options))):
        lifted.move_to_side_data(("models",))
        return lifted.build()
    lifted.take("models")
    if options is None:
        lifted.take("configOptions")
        lifted.infer("configOptions", [_models_option(models)])
    else:
        lifted.put("configOptions", [*options, _models_option(models)])
    return lifted.build()


def _is_model_option(option: Json) -> bool:
    return isinstance(option, dict) and (option.get("category") == MODEL_OPTION or option.get("id") == MODEL_OPTION)


def _models_option(models: Object) -> Object:
    lifted = Lifted(models)
    listed, current = lifted.take("availableModels"), lifted.take("currentModelId")
    lifted.out = {"id": MODEL_OPTION, "name": "Model", "category": MODEL_OPTION, "type": "select"}
    lifted.put("currentValue", current)
    lifted.side_data["form"] = "models"
    key = _model_id_key(listed)
    if key != "id":
        lifted.side_data["modelKey"] = key
    lifted.put("options", [_lift_model(model, key) for model in listed] if isinstance(listed, list) else listed)
    return lifted.build()


def _model_id_key(models: Json) -> str:
    """Return the member that names a model: `id` in docs/protocol/dialects.md#banjo-models, `modelId` in real peers."""
    first = models[0] if isinstance(models, list) and models else None
    return "modelId" if isinstance(first, dict) and "id" not in first and "modelId" in first else "id"


def _lift_model(model: Json, key: str) -> Json:
    if not isinstance(model, dict):
        return model
    lifted = Lifted(model)
    lifted.put("value", lifted.take(key, ABSENT))
    return lifted.build()
