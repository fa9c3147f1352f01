"""An agent of one small file, which starts ten times faster than any of ours: for tests that start it often."""

import json
import os
import sys
import time
from typing import Any

MODEL: dict[str, Any] = {"id": "model", "name": "Model", "type": "select", "currentValue": "plain", "category": "model"}
MODEL["options"] = [{"value": "plain", "name": "Plain"}, {"value": "loud", "name": "Loud"}]
COUNT = iter(range(1000))


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session: str, news: str, **more: Any) -> None:
    say(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": news, **more}})


def tell(session: str, text: str) -> None:
    update(session, "agent_message_chunk", content={"type": "text", "text": text})


def ask(method: str, **params: Any) -> Any:
    id = f"a{next(COUNT)}"
    say(id=id, method=method, params=params)
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == id:
            return answer.get("result", {"error": answer.get("error")})
    sys.exit(1)


def allowed(session: str, call: str, title: str, **more: Any) -> bool:
    tool = {"toolCallId": call, "title": title, **more}
    update(session, "tool_call", **tool, status="pending")
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    answer = ask("session/request_permission", sessionId=session, toolCall=tool, options=options)
    return bool(answer["outcome"].get("optionId") == "yes")


def work(session: str, cwd: str, text: str) -> str:
    """Gives the stop reason."""
    word, _, rest = text.partition(" ")
    path = os.path.join(cwd, rest.partition(" ")[0])
    if word == "read":
        tell(session, ask("fs/read_text_file", sessionId=session, path=path).get("content", "nothing"))
    elif word == "write":
        place = [{"path": path}]
        if not allowed(session, "c1", f"Write {rest.partition(' ')[0]}", kind="edit", locations=place):
            update(session, "tool_call_update", toolCallId="c1", status="failed")
            tell(session, "I may not.")
            return "end_turn"
        done = ask("fs/write_text_file", sessionId=session, path=path, content=rest.partition(" ")[2])
        update(session, "tool_call_update", toolCallId="c1", status="failed" if done.get("error") else "completed")
        tell(session, "It is not written." if done.get("error") else "It is written.")
    elif word == "run":
        if not allowed(session, "c1", f"Run {rest}", kind="execute", rawInput={"command": rest}):
            return "end_turn"
        id = ask("terminal/create", sessionId=session, command=rest, cwd=cwd).get("terminalId")
        update(session, "tool_call_update", toolCallId="c1", content=[{"type": "terminal", "terminalId": id}])
        ask("terminal/wait_for_exit", sessionId=session, terminalId=id)
        ask("terminal/release", sessionId=session, terminalId=id)
        update(session, "tool_call_update", toolCallId="c1", status="completed")
    elif word == "slow":
        tell(session, "slowly")
        for line in sys.stdin:
            if json.loads(line).get("method") == "session/cancel":
                return "cancelled"
    elif word == "await":  # somebody makes that file
        tell(session, "waiting")
        while not os.path.exists(path):
            time.sleep(0.02)
        tell(session, " no more")
    elif word == "crash":
        tell(session, "Goodbye.")
        print("crashing, as I was told", file=sys.stderr, flush=True)
        os._exit(3)
    elif word == "stop":
        return rest
    elif word != "late":
        tell(session, text)
    return "end_turn"


folders: dict[str, str] = {}
for line in sys.stdin:
    call = json.loads(line)
    method, params, id = call.get("method"), call.get("params") or {}, call.get("id")
    if method == "initialize":
        offered = {"promptCapabilities": {"embeddedContext": True}}
        say(
            id=id,
            result={"protocolVersion": 1, "agentCapabilities": offered, "agentInfo": {"name": "small", "version": "1"}},
        )
    elif method == "session/new":
        session = f"s{next(COUNT)}"
        folders[session] = params["cwd"]
        say(id=id, result={"sessionId": session, "configOptions": [MODEL]})
    elif method == "session/set_config_option":
        MODEL["currentValue"] = params["value"]
        say(id=id, result={"configOptions": [MODEL]})
    elif method == "session/prompt":
        text = "|".join(each.get("text") or each.get("resource", {}).get("text", "") for each in params["prompt"])
        if text.startswith("fail"):
            say(id=id, error={"code": -32603, "message": "that went wrong"})
            continue
        reason = work(params["sessionId"], folders[params["sessionId"]], text)
        say(id=id, result={"stopReason": reason})
        if text == "late":
            tell(params["sessionId"], "This comes too late.")
    elif id is not None and method is not None:
        say(id=id, error={"code": -32601, "message": f"no {method}"})
