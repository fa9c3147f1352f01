"""A proxy process that plays what a real one did: compares what it gets with a recording, and sends what that sent.

    replay_proxy.py RECORDING RESULT

Writes "same" into RESULT when everything was as recorded, otherwise the first difference.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

steps = json.loads(Path(sys.argv[1]).read_text())["steps"]
result = Path(sys.argv[2])
for step in steps:
    if step["from"] == "proxy":
        print(json.dumps(step["frame"]), flush=True)
        continue
    received = json.loads(sys.stdin.readline() or "null")
    if received != step["frame"]:
        result.write_text(f"expected {step['frame']}, got {received}")
        sys.exit(1)
result.write_text("same")
sys.stdin.read()
