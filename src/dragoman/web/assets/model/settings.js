// Mode, model and other settings of a session in one form, whichever way its agent tells them.

/** The settings as {kind, id, name, category, value, choices}; a choice is {value, name, description}. */
export function settingsOf({ modes, configOptions } = {}) {
  const options = configOptions || [];
  const found = options.map(optionSetting);
  const choices = (modes?.availableModes || []).map((mode) => ({ value: mode.id, name: mode.name || mode.id, description: mode.description || "" }));
  // An agent may tell its modes both ways.
  if (choices.length && !options.some((option) => option.category === "mode")) {
    found.unshift({ kind: "mode", id: "mode", name: "", category: "mode", value: modes.currentModeId, choices });
  }
  return found;
}

function optionSetting(option) {
  const setting = { kind: "option", id: option.id, name: option.name || option.id, category: option.category || "", value: option.currentValue };
  if (option.type === "boolean") return { ...setting, kind: "switch", choices: [] };
  const all = (option.options || []).flatMap((each) => (each.options ? each.options : [each]));
  return { ...setting, choices: all.map((each) => ({ value: each.value, name: each.name || each.value, description: each.description || "" })) };
}

/** Change one. The answer has the settings as they are then, if the agent tells them. */
export function changeSetting(rpc, sessionId, { kind, id }, value) {
  if (kind === "mode") return rpc.call("session/set_mode", { sessionId, modeId: value });
  const params = { sessionId, configId: id, value };
  return rpc.call("session/set_config_option", kind === "switch" ? { ...params, type: "boolean" } : params);
}
