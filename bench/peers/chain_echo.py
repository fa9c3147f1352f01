"""An agent without a library, for chains: answers a prompt with so many updates, and everything else at once."""

import json
import sys

UPDATE = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":'
    '"agent_message_chunk","content":{"type":"text","text":"chunk %06d of a text that an agent says"}}}}\n'
)
BLOCK = 200  # updates in one write, as a fast agent has them

for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message or "id" not in message:
        continue
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {}}
    elif method == "session/new":
        result = {"sessionId": "s"}
    elif method == "session/prompt":
        count = int(message["params"]["prompt"][0]["text"])
        for start in range(0, count, BLOCK):
            sys.stdout.write("".join(UPDATE % number for number in range(start, min(start + BLOCK, count))))
        result = {"stopReason": "end_turn"}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
    sys.stdout.flush()
