// A session as a list of items to show, folded from its log. Takes log entries in order; live messages become entries.
//
// An item: {key, type, version, ...}. Types: user, agent, thought, tool, note. `version` grows with each change.

/** The items of one part of a log. */
export class Transcript {
  items = [];
  tools = new Map(); // by id
  terminals = new Map(); // by id: {command, output, exit, gone}
  messages = new Map(); // by message id
  plan = [];
  usage = null;
  commands = [];
  modes = null;
  options = [];
  title = null;
  opened = null;
  openTurn = null;
  seq = 0;
  firstSeq = 0;
  onchange = () => {};
  #keys = 0;

  /** Apply one entry: {seq, kind, actor, time, body, turn}. */
  apply(entry) {
    if (entry.seq) {
      this.seq = Math.max(this.seq, entry.seq);
      this.firstSeq ||= entry.seq;
    }
    APPLY[entry.kind]?.(this, entry.body || {}, entry);
  }

  add(item) {
    this.#keys += 1;
    const made = { key: `${this.firstSeq}.${this.#keys}`, version: 0, ...item };
    this.items.push(made);
    this.onchange(made);
    return made;
  }

  touch(item) {
    item.version += 1;
    this.onchange(item);
  }

  note(tone, text, entry, more = {}) {
    return this.add({ type: "note", tone, text, time: entry.time, seq: entry.seq, ...more });
  }

  /** Put the items of an earlier part of the log before these. */
  prepend(older) {
    const [first] = this.items;
    const last = older.items.at(-1);
    if (first && last && isMessage(first) && first.type === last.type && first.turn === last.turn && !first.messageId) {
      first.parts = joinParts(last.parts, first.parts);
      first.time = last.time;
      first.version += 1;
      older.items.pop();
    }
    const kept = [];
    for (const item of older.items) {
      const newer = item.type === "tool" ? this.tools.get(item.id) : null;
      if (newer && newer !== item && !newer.hasBegun) {
        // The call began in the earlier part, and later changes were shown as a call of their own.
        newer.call = { ...item.call, ...newer.call };
        newer.time = item.time;
        newer.version += 1;
        this.items.splice(this.items.indexOf(newer), 1);
        kept.push(newer);
      } else kept.push(item);
    }
    this.items.unshift(...kept);
    for (const [id, item] of older.tools) if (!this.tools.has(id)) this.tools.set(id, item);
    for (const [id, terminal] of older.terminals) {
      this.terminals.set(id, { ...terminal, ...this.terminals.get(id) });
    }
    if (!this.plan.length) this.plan = older.plan;
    this.usage ||= older.usage;
    if (!this.commands.length) this.commands = older.commands;
    this.modes ||= older.modes;
    if (!this.options.length) this.options = older.options;
    this.opened ||= older.opened;
    this.firstSeq = older.firstSeq || this.firstSeq;
  }

  terminal(id) {
    let found = this.terminals.get(id);
    if (!found) {
      found = { output: "", exit: null };
      this.terminals.set(id, found);
    }
    return found;
  }

  /** Mark the tool calls that show a terminal as changed. */
  touchTerminal(id) {
    for (const item of this.tools.values()) {
      if (item.call.content?.some((block) => block.type === "terminal" && block.terminalId === id)) this.touch(item);
    }
  }
}

const isMessage = (item) => item.type === "agent" || item.type === "thought" || item.type === "user";

function joinParts(before, after) {
  if (before.at(-1)?.type === "text" && after[0]?.type === "text") {
    const joined = { type: "text", text: before.at(-1).text + after[0].text };
    return [...before.slice(0, -1), joined, ...after.slice(1)];
  }
  return [...before, ...after];
}

function addBlock(parts, block) {
  const last = parts.at(-1);
  if (block.type === "text" && last?.type === "text") last.text += block.text || "";
  else parts.push({ ...block });
}

// --- entries ------------------------------------------------------------------------------------------------------

const APPLY = {
  opened(transcript, body) {
    transcript.opened = { ...transcript.opened, ...body };
    if (body.modes) transcript.modes = body.modes;
    if (body.configOptions) transcript.options = body.configOptions;
  },
  prompt(transcript, body, entry) {
    const parts = [];
    for (const block of body.prompt || []) addBlock(parts, block);
    transcript.add({ type: "user", user: entry.actor, parts, time: entry.time, seq: entry.seq, turn: entry.turn });
  },
  update(transcript, body, entry) {
    UPDATES[body.sessionUpdate]?.(transcript, body, entry);
  },
  asked(transcript, body, entry) {
    const call = body.toolCall;
    if (!call) {
      const text = body.message || "";
      transcript.lastForm = transcript.note("ask", text, entry, { form: true });
      return;
    }
    const item = mergeTool(transcript, call, entry);
    item.asked = { time: entry.time, options: body.options || [] };
    transcript.touch(item);
  },
  decided(transcript, body, entry) {
    const item = transcript.tools.get(body.toolCallId);
    const decision = { by: entry.actor, time: entry.time, outcome: body.outcome };
    if (item) {
      item.decided = decision;
      transcript.touch(item);
    } else if (!body.toolCallId && transcript.lastForm) {
      transcript.lastForm.decided = { ...decision, action: body.action };
      transcript.touch(transcript.lastForm);
    }
  },
  terminal(transcript, body) {
    const id = body.terminal_id;
    if (!id) return;
    const terminal = transcript.terminal(id);
    if (body.command) terminal.command = [body.command, ...(body.args || [])].join(" ");
    if (body.exit_code !== undefined || body.signal) terminal.exit = { code: body.exit_code, signal: body.signal };
    if (body.method === "terminal/release") terminal.released = true;
    if (body.output !== undefined) Object.assign(terminal, { output: body.output, isKnown: true });
    transcript.touchTerminal(id);
  },
  turn_started(transcript, body, entry) {
    transcript.openTurn = { turn: entry.turn, by: entry.actor, since: Date.parse(entry.time) || Date.now() };
  },
  turn_ended(transcript, body, entry) {
    const since = transcript.openTurn?.since;
    transcript.openTurn = null;
    for (const item of transcript.items.slice(-50)) if (item.open) endItem(transcript, item);
    const seconds = since ? Math.round(((Date.parse(entry.time) || Date.now()) - since) / 1000) : null;
    if (body.error) transcript.note("bad", body.error.message || body.error.kind || "", entry, { name: "turnFailed" });
    else if (body.stopReason && body.stopReason !== "end_turn") {
      transcript.note("soft", body.stopReason, entry, { name: "stopped", seconds });
    }
    if (body.usage) transcript.turnUsage = body.usage;
  },
  agent_exited(transcript, body, entry) {
    transcript.note("bad", body.message || "", entry, { name: "agentExited", stderr: body.stderr, status: body.status });
  },
  lost(transcript, body, entry) {
    transcript.note("bad", "", entry, { name: "entryLost" });
  },
};

function endItem(transcript, item) {
  item.open = false;
  if (item.type === "tool" && ["pending", "in_progress"].includes(item.call.status || "pending")) item.stopped = true;
  transcript.touch(item);
}

// --- updates ------------------------------------------------------------------------------------------------------

const UPDATES = {
  agent_message_chunk: (transcript, body, entry) => chunk(transcript, "agent", body, entry),
  agent_thought_chunk: (transcript, body, entry) => chunk(transcript, "thought", body, entry),
  user_message_chunk: (transcript, body, entry) => chunk(transcript, "user", body, entry),
  agent_message: (transcript, body, entry) => wholeMessage(transcript, "agent", body, entry),
  agent_thought: (transcript, body, entry) => wholeMessage(transcript, "thought", body, entry),
  user_message: (transcript, body, entry) => wholeMessage(transcript, "user", body, entry),
  tool_call: mergeToolUpdate,
  tool_call_update: mergeToolUpdate,
  tool_call_content_chunk(transcript, body, entry) {
    const item = toolItem(transcript, body.toolCallId, entry);
    item.call.content = [...(item.call.content || []), body.content];
    transcript.touch(item);
  },
  terminal_update(transcript, body) {
    const terminal = transcript.terminal(body.terminalId);
    if (body.command) terminal.command = body.command;
    if (body.output) terminal.output = fromBase64(body.output.data);
    if (body.exitStatus) terminal.exit = { code: body.exitStatus.exitCode, signal: body.exitStatus.signal };
    transcript.touchTerminal(body.terminalId);
  },
  terminal_output_chunk(transcript, body) {
    transcript.terminal(body.terminalId).output += fromBase64(body.data);
    transcript.touchTerminal(body.terminalId);
  },
  plan(transcript, body) {
    transcript.plan = body.entries || [];
  },
  plan_update(transcript, body) {
    if (body.plan?.entries) transcript.plan = body.plan.entries;
  },
  plan_removed(transcript) {
    transcript.plan = [];
  },
  usage_update(transcript, body) {
    transcript.usage = { ...transcript.usage, ...body };
  },
  available_commands_update(transcript, body) {
    transcript.commands = body.availableCommands || [];
  },
  current_mode_update(transcript, body, entry) {
    if (transcript.modes) transcript.modes = { ...transcript.modes, currentModeId: body.currentModeId };
    transcript.note("soft", body.currentModeId, entry, { name: "mode" });
  },
  config_option_update(transcript, body) {
    transcript.options = body.configOptions || [];
  },
  session_info_update(transcript, body) {
    if (body.title !== undefined) transcript.title = body.title;
  },
  notice(transcript, body, entry) {
    const tone = { error: "bad", warning: "ask" }[body.severity] || "soft";
    transcript.note(tone, [body.title, body.description].filter(Boolean).join(": "), entry, { name: "notice" });
  },
  compaction_update(transcript, body, entry) {
    if (body.status === "in_progress") return;
    const summary = (body.summary || []).map((block) => block.text || "").join("");
    transcript.note(body.status === "failed" ? "bad" : "soft", body.error || "", entry, {
      name: "compaction",
      status: body.status,
      summary,
    });
  },
};

function chunk(transcript, type, body, entry) {
  const last = transcript.items.at(-1);
  const id = body.messageId;
  const same =
    last?.type === type &&
    last.turn === entry.turn &&
    last.messageId === id &&
    (type !== "user" || last.seq === entry.seq || !entry.seq);
  const item =
    same
      ? last
      : transcript.add({
          type,
          parts: [],
          time: entry.time,
          seq: entry.seq,
          turn: entry.turn,
          messageId: id,
          user: entry.actor,
          open: type !== "user",
        });
  if (!same && type !== "user") for (const before of transcript.items.slice(-3, -1)) closeMessage(transcript, before);
  if (id) transcript.messages.set(`${type} ${id}`, item);
  addBlock(item.parts, body.content || {});
  transcript.touch(item);
}

function closeMessage(transcript, item) {
  if (item.open && item.type !== "tool") {
    item.open = false;
    item.ended = item.time;
    transcript.touch(item);
  }
}

function wholeMessage(transcript, type, body, entry) {
  let item = transcript.messages.get(`${type} ${body.messageId}`);
  if (!item) {
    if (body.content === undefined) return;
    item = transcript.add({ type, parts: [], time: entry.time, seq: entry.seq, turn: entry.turn, user: entry.actor });
    item.messageId = body.messageId;
    transcript.messages.set(`${type} ${body.messageId}`, item);
  }
  if (body.content !== undefined) {
    item.parts = [];
    for (const block of body.content || []) addBlock(item.parts, block);
  }
  transcript.touch(item);
}

const isFinal = (call) => ["completed", "failed"].includes(call.status);

function toolItem(transcript, id, entry, begins = false) {
  let item = transcript.tools.get(id);
  // An agent that was started again counts its calls from the beginning: the id of a finished call returns.
  if (!item || (begins && isFinal(item.call))) {
    for (const before of transcript.items.slice(-2)) closeMessage(transcript, before);
    item = transcript.add({ type: "tool", id, call: {}, time: entry.time, seq: entry.seq, turn: entry.turn, open: true });
    transcript.tools.set(id, item);
  }
  return item;
}

function mergeTool(transcript, call, entry) {
  const begins = call.sessionUpdate === "tool_call";
  const item = toolItem(transcript, call.toolCallId, entry, begins);
  item.hasBegun ||= begins;
  for (const [name, value] of Object.entries(call)) {
    if (name !== "sessionUpdate" && value !== null && value !== undefined) item.call[name] = value;
  }
  if (isFinal(item.call)) {
    item.open = false;
    item.endTime ||= entry.time;
  }
  return item;
}

function mergeToolUpdate(transcript, body, entry) {
  transcript.touch(mergeTool(transcript, body, entry));
}

function fromBase64(data) {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(data), (char) => char.charCodeAt(0)));
  } catch {
    return "";
  }
}
