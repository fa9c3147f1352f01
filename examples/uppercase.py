"""A proxy that changes prompts to uppercase and forwards everything else unchanged."""

import sys

from dragoman import Forward, Proxy
from dragoman.schema.content import TextContent
from dragoman.schema.prompt import PromptParams, PromptResult

proxy = Proxy("uppercase")


@proxy.from_client("session/prompt")
async def uppercase(params: PromptParams, forward: Forward[PromptResult]) -> PromptResult:
    for block in params.prompt:
        if isinstance(block, TextContent):
            block.text = block.text.upper()
    return await forward(params)


proxy.run(sys.argv[1:])
