"""A proxy that keeps passwords out of files: `discreet.py COMMAND...` stands in front of any agent."""

import sys
from typing import Any

from dragoman import Kind, ProtocolError, Proxy

proxy = Proxy("discreet")


@proxy.from_agent("fs/write_text_file")
async def check(params: Any, forward: Any) -> Any:
    if "password" in params.content.lower():
        raise ProtocolError(Kind.PERMISSION_DENIED, f"{params.path} would hold a password")
    return await forward(params)


proxy.run(sys.argv[1:])
