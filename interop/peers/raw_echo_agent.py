"""An agent without any library: answers each request with what it got, and `_error` with that error."""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message or "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    params = message.get("params")
    if message["method"] == "initialize":
        answer["result"] = {"protocolVersion": 1, "agentCapabilities": {}, "_params": params}
    elif message["method"] == "_error":
        answer["error"] = params
    else:
        answer["result"] = {"_method": message["method"], "_params": params}
    print(json.dumps(answer), flush=True)
