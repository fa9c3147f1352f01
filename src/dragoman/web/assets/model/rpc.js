// One WebSocket that speaks JSON-RPC 2.0, as every client of the host does.

/** The error of a call: message, and kind if the host names one. */
export class CallError extends Error {
  constructor(error) {
    super(error.message || "the call failed");
    this.kind = error.data?.kind || "";
    this.data = error.data;
  }
}

/** The connection ended before an answer came: it may or may not have arrived. */
export class ConnectionLost extends Error {}

/** A connection. `serve(method, params, id)` gets the calls of the host; `onclose(code, reason)` its end. */
export class Rpc {
  #socket;
  #next = 0;
  #waiting = new Map();
  #incoming = new Map(); // ids of the host's requests that are not answered yet

  constructor(url, { serve, onopen, onclose }) {
    this.serve = serve;
    this.#socket = new WebSocket(url, "acp");
    this.#socket.addEventListener("open", () => onopen?.());
    this.#socket.addEventListener("message", (event) => this.#receive(event.data));
    this.#socket.addEventListener("close", (event) => {
      for (const { reject } of this.#waiting.values()) reject(new ConnectionLost(event.reason));
      this.#waiting.clear();
      onclose?.(event.code, event.reason);
    });
  }

  get isOpen() {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Send a request. The promise has the id as `requestId`. */
  call(method, params) {
    this.#next += 1;
    const id = this.#next;
    const answer = new Promise((resolve, reject) => {
      if (!this.isOpen) {
        reject(new ConnectionLost("not connected"));
        return;
      }
      this.#waiting.set(id, { resolve, reject });
      this.#send({ id, method, params });
    });
    answer.requestId = id;
    return answer;
  }

  notify(method, params) {
    if (this.isOpen) this.#send({ method, params });
  }

  /** Answer a request of the host; false if it was withdrawn or the connection is gone. */
  answer(id, result) {
    if (!this.#incoming.delete(id) || !this.isOpen) return false;
    this.#send({ id, result });
    return true;
  }

  close() {
    this.#socket.close(1000);
  }

  #send(message) {
    this.#socket.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  #receive(text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return; // not a message of the protocol
    }
    if (message.method === undefined) {
      const waiting = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.error) waiting?.reject(new CallError(message.error));
      else waiting?.resolve(message.result);
    } else if (message.id === undefined) {
      if (message.method === "$/cancel_request") this.#incoming.delete(message.params?.requestId);
      this.serve(message.method, message.params || {});
    } else {
      this.#incoming.set(message.id, message.method);
      if (this.serve(message.method, message.params || {}, message.id) === false) {
        this.#incoming.delete(message.id);
        const error = { code: -32601, message: `this page does not serve ${message.method}` };
        this.#send({ id: message.id, error });
      }
    }
  }
}
