"""An agent that asks who it talks to, with a form and then with a link."""

from dragoman import Agent, Turn
from dragoman.schema.elicitation import CreateElicitationParams, ElicitationSchema, StringProperty

agent = Agent("curious", version="0.1")


@agent.prompt
async def ask(turn: Turn) -> None:
    fields = ElicitationSchema(properties={"name": StringProperty(title="Your name")}, required=["name"])
    form = CreateElicitationParams(
        message="Who are you?", mode="form", session_id=turn.session.id, requested_schema=fields
    )
    answer = await turn.session.request("elicitation/create", form)
    await turn.say(f"Hello, {answer.content['name']}. " if answer.content else "Hello, stranger. ")
    link = CreateElicitationParams(
        message="Sign the guest book",
        mode="url",
        session_id=turn.session.id,
        elicitation_id="guests",
        url="https://guests.example.org/sign?from=curious",
    )
    answer = await turn.session.request("elicitation/create", link)
    await turn.say("Thank you." if answer.action == "accept" else "Another time, then.")


agent.run()
