"""A proxy: the agent hears the user in capitals, and everything else passes as it is."""

import sys
from typing import Any

from dragoman import Proxy
from dragoman.schema.content import TextContent

proxy = Proxy("loud")


@proxy.from_client("session/prompt")
async def shout(params: Any, forward: Any) -> Any:
    for block in params.prompt:
        if isinstance(block, TextContent):
            block.text = block.text.upper()
    return await forward(params)


proxy.run(sys.argv[1:])
