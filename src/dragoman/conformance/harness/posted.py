"""What the body of a request says: the message in it, and the method that it calls.

For those who look at requests as they come: the recorder of clients and the seeds of remote faults.
"""

from __future__ import annotations

import json
from typing import Any


def message_of(body: bytes) -> Any:
    """The body as JSON, None when it is none."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def method_of(body: bytes) -> str:
    """The method of the message in a body, "" when it calls nothing."""
    found = message_of(body)
    return str(found.get("method", "")) if isinstance(found, dict) else ""
