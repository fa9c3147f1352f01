"""A proxy that changes prompts to uppercase and forwards everything else unchanged."""

import sys
from typing import Any

from dragoman import Proxy
from dragoman.schema.content import TextContent

proxy = Proxy("uppercase")


@proxy.from_client("session/prompt")
async def uppercase(params: Any, forward: Any) -> Any:
    for block in params.prompt:
        if isinstance(block, TextContent):
            block.text = block.text.upper()
    return await forward(params)


proxy.run(sys.argv[1:])
