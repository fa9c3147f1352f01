"""An agent whose client chooses the model providers. The keys are never sent back to a client."""

from dragoman import Agent, Provider, Turn

agent = Agent(
    "providers",
    version="1.0",
    providers=[
        Provider(
            id="main", supported=["anthropic"], required=True, api_type="anthropic", base_url="https://main.example"
        ),
        Provider(id="spare", supported=["openai"]),
    ],
)


@agent.prompt
async def answer(turn: Turn) -> None:
    on = [provider for provider in agent.providers.values() if provider.is_enabled]
    for provider in on:  # provider.headers has the keys
        await turn.say(f"{provider.id} at {provider.base_url} with {len(provider.headers)} headers. ")


if __name__ == "__main__":
    agent.run()
