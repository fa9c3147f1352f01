// A session that is open and not shown yet: its settings can be changed first, or it can be dropped.
import { api, sessionPath, socketAddress } from "./api.js";
import { initializeParams } from "./host.js";
import { ConnectionLost, Rpc } from "./rpc.js";
import { changeSetting, settingsOf } from "./settings.js";

/** Open a session of an agent in a folder. */
export async function openDraft(host, agent, cwd) {
  // A connection is for one agent: another agent than the first gets one of its own.
  const isFirst = agent === host.me.agents[0] && host.state === "live";
  const rpc = isFirst ? host.rpc : await connect(agent);
  try {
    const answer = await rpc.call("session/new", { cwd, mcpServers: [] });
    return new DraftSession(rpc, isFirst, answer);
  } catch (error) {
    if (!isFirst) rpc.close();
    throw error;
  }
}

async function connect(agent) {
  const rpc = await new Promise((resolve, reject) => {
    const made = new Rpc(socketAddress(agent), {
      serve: (method) => !method.includes("/") || method.startsWith("_"),
      onopen: () => resolve(made),
      onclose: (code, reason) => reject(new ConnectionLost(reason)),
    });
  });
  await rpc.call("initialize", initializeParams());
  return rpc;
}

class DraftSession {
  #rpc;
  #isShared;

  constructor(rpc, isShared, answer) {
    this.#rpc = rpc;
    this.#isShared = isShared;
    this.id = answer.sessionId;
    this.settings = settingsOf(answer);
  }

  /** Change the settings whose chosen value is another one; those that the agent no longer has are left out. */
  async choose(values) {
    for (const setting of this.settings) {
      const value = values.get(setting.id);
      const isOffered = setting.kind === "switch" || setting.choices.some((choice) => choice.value === value);
      if (value === undefined || value === setting.value || !isOffered) continue;
      await changeSetting(this.#rpc, this.id, setting, value);
      setting.value = value;
    }
  }

  /** Leave it to whoever shows it. */
  finish() {
    if (!this.#isShared) this.#rpc.close();
  }

  /** Delete it. */
  drop() {
    this.finish();
    return api("DELETE", sessionPath(this.id)).catch(() => {});
  }
}
