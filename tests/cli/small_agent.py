"""A small agent in one file, which starts ten times faster than ours: for tests that start it often."""

import json
import os
import sys
import time
from typing import Any

MODEL: dict[str, Any] = {"id": "model", "name": "Model", "type": "select", "currentValue": "plain", "category": "model"}
MODEL["options"] = [{"value": "plain", "name": "Plain"}, {"value": "loud", "name": "Loud"}]
COUNT = iter(range(1000))


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session: str, update_type: str, **more: Any) -> None:
    send(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": update_type, **more}})


def send_text(session: str, text: str) -> None:
    update(session, "agent_message_chunk", content={"type": "text", "text": text})


def ask(method: str, **params: Any) -> Any:
    id = f"a{next(COUNT)}"
    send(id=id, method=method, params=params)
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == id:
            return answer.get("result", {"error": answer.get("error")})
    sys.exit(1)


def request_permission(session: str, call: str, title: str, **more: Any) -> bool:
    tool = {"toolCallId": call, "title": title, **more}
    update(session, "tool_call", **tool, status="pending")
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    answer = ask("session/request_permission", sessionId=session, toolCall=tool, options=options)
    return bool(answer["outcome"].get("optionId") == "yes")


def run_prompt(session: str, cwd: str, text: str) -> str:
    """Run a prompt; return the stop reason."""
    command, _, rest = text.partition(" ")
    path = os.path.join(cwd, rest.partition(" ")[0])
    if command == "read":
        send_text(session, ask("fs/read_text_file", sessionId=session, path=path).get("content", "nothing"))
    elif command == "write":
        locations = [{"path": path}]
        if not request_permission(session, "c1", f"Write {rest.partition(' ')[0]}", kind="edit", locations=locations):
            update(session, "tool_call_update", toolCallId="c1", status="failed")
            send_text(session, "I may not.")
            return "end_turn"
        done = ask("fs/write_text_file", sessionId=session, path=path, content=rest.partition(" ")[2])
        update(session, "tool_call_update", toolCallId="c1", status="failed" if done.get("error") else "completed")
        send_text(session, "It is not written." if done.get("error") else "It is written.")
    elif command == "run":
        if not request_permission(session, "c1", f"Run {rest}", kind="execute", rawInput={"command": rest}):
            return "end_turn"
        id = ask("terminal/create", sessionId=session, command=rest, cwd=cwd).get("terminalId")
        update(session, "tool_call_update", toolCallId="c1", content=[{"type": "terminal", "terminalId": id}])
        ask("terminal/wait_for_exit", sessionId=session, terminalId=id)
        ask("terminal/release", sessionId=session, terminalId=id)
        update(session, "tool_call_update", toolCallId="c1", status="completed")
    elif command == "slow":
        send_text(session, "slowly")
        for line in sys.stdin:
            if json.loads(line).get("method") == "session/cancel":
                return "cancelled"
    elif command == "await":  # another process creates the file
        send_text(session, "waiting")
        while not os.path.exists(path):
            time.sleep(0.02)
        send_text(session, " no more")
    elif command == "crash":
        send_text(session, "Goodbye.")
        print("crashing, as I was told", file=sys.stderr, flush=True)
        os._exit(3)
    elif command == "stop":
        return rest
    elif command != "late":
        send_text(session, text)
    return "end_turn"


folders: dict[str, str] = {}
for line in sys.stdin:
    call = json.loads(line)
    method, params, id = call.get("method"), call.get("params") or {}, call.get("id")
    if method == "initialize":
        capabilities = {"promptCapabilities": {"embeddedContext": True}}
        send(
            id=id,
            result={
                "protocolVersion": 1,
                "agentCapabilities": capabilities,
                "agentInfo": {"name": "small", "version": "1"},
            },
        )
    elif method == "session/new":
        session = f"s{next(COUNT)}"
        folders[session] = params["cwd"]
        send(id=id, result={"sessionId": session, "configOptions": [MODEL]})
    elif method == "session/set_config_option":
        MODEL["currentValue"] = params["value"]
        send(id=id, result={"configOptions": [MODEL]})
    elif method == "session/prompt":
        text = "|".join(each.get("text") or each.get("resource", {}).get("text", "") for each in params["prompt"])
        if text.startswith("fail"):
            send(id=id, error={"code": -32603, "message": "that went wrong"})
            continue
        reason = run_prompt(params["sessionId"], folders[params["sessionId"]], text)
        send(id=id, result={"stopReason": reason})
        if text == "late":
            send_text(params["sessionId"], "This comes too late.")
    elif id is not None and method is not None:
        send(id=id, error={"code": -32601, "message": f"no {method}"})
