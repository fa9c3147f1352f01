"""A team as one ACP agent: any client uses it through one entry. `primary_agent` and `route` are its options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.bridge.team import routes
from dragoman.bridge.team.access import MakeGuard
from dragoman.bridge.team.bounds import TeamBounds
from dragoman.bridge.team.child import Child
from dragoman.bridge.team.client_questions import ClientQuestions
from dragoman.bridge.team.client_workspace import ClientWorkspace
from dragoman.bridge.team.events import TeamEvent
from dragoman.bridge.team.handover import KEEPS
from dragoman.bridge.team.targets import AgentTarget
from dragoman.bridge.team.team import Team
from dragoman.bridge.team.views import AGENT_KEY, AnswerView, ChildViews, answers_text
from dragoman.config.teams_section import ROUTES, TeamRule, TeamSection
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.agent import Agent
from dragoman.roles.agent.options import Option
from dragoman.roles.agent.prompt_text import merge_prompt
from dragoman.roles.agent.session import Session
from dragoman.roles.agent.turn import Turn
from dragoman.roles.client.permission.questions import AskUser
from dragoman.schema.content import ContentBlock, EmbeddedResource, ResourceLink, TextContent
from dragoman.schema.update import AvailableCommand, CommandInput, SessionInfoUpdate
from dragoman.workspace.coordination import FileCoordinator

PRIMARY_OPTION, ROUTE_OPTION = "primary_agent", "route"

COMMANDS = {
    "to": ("send a prompt to one agent", "NAME TEXT"),
    "all": ("send a prompt to all agents, each in a new session", "TEXT"),
    "handover": ("let another agent take over, with a summary or the transcript", "NAME [summary|transcript]"),
    "agents": ("list the agents of the team", ""),
    "files": ("show who changed which file", ""),
}

ROUTE_REQUEST = (
    "Which agent should answer the prompt below? Answer with one name of: {names}. Do nothing else.\n\n{text}"
)


class TeamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a team is made of."""

    name: str = "team"
    agents: Mapping[str, AgentTarget]
    primary: str = ""
    route: str = routes.PRIMARY
    rules: tuple[TeamRule, ...] = ()
    isolate: bool = False
    bounds: TeamBounds = TeamBounds()


def settings_from_config(section: TeamSection) -> TeamSettings:
    """Return the settings of a configured team."""
    numbers = {name: int(value) for name, value in (("depth", section.depth), ("width", section.width)) if value}
    budget = {name: value if name == "cost" else int(value) for name, value in section.budget.items()}
    return TeamSettings(
        name=section.name,
        agents=section.agents,
        primary=section.primary,
        route=section.route or (routes.RULES if section.rules else routes.PRIMARY),
        rules=section.rules,
        isolate=section.isolate,
        bounds=TeamBounds(**numbers, **budget),  # type: ignore[arg-type]
    )


# Returns the guard of an agent from its name, the folders of its session, and how to ask the client's user.
GuardFactory = Callable[[str, Sequence[str], AskUser], Any]


class ServedTeam:
    """Serves a team as an agent: one team for each session of a client."""

    def __init__(
        self,
        settings: TeamSettings,
        *,
        make_guard: GuardFactory | None = None,
        on_event: Callable[[str, TeamEvent], None] | None = None,
        report: Callable[[str], None] | None = None,
        tools: bool = True,
        version: str = "0.1.0",
    ) -> None:
        """Without `make_guard`, the client is asked about everything but reading. `on_event` gets the session too."""
        self.settings = settings
        self._make_guard = make_guard
        self._on_event = on_event
        self._report = report
        self._tools = tools
        # For the files of clients. Those that the client opens for us itself have the coordinator of their process.
        self._coordinator = FileCoordinator()
        self._teams: dict[str, Team] = {}
        self._workspaces: dict[str, ClientWorkspace] = {}
        self._check_names()
        names = list(settings.agents)
        self.agent = agent = Agent(
            settings.name,
            version=version,
            title=f"{settings.name}: {', '.join(names)}",
            image=True,
            audio=True,
            mcp=False,
            options=[
                Option.select(PRIMARY_OPTION, names, settings.primary or names[0], description="Who answers"),
                Option.select(
                    ROUTE_OPTION,
                    [each for each in ROUTES if each != routes.RULES or settings.rules],
                    settings.route,
                    description="How an agent is chosen: the primary one, by rules, by the primary one's word, or all",
                ),
            ],
            commands=[
                AvailableCommand(name=name, description=what, input=CommandInput(hint=hint) if hint else UNSET)
                for name, (what, hint) in COMMANDS.items()
            ],
        )
        agent.prompt(self._answer)
        agent.on_session_closed(self._close_session)
        agent.on_session_deleted(self._close_session)
        agent.on_option_changed(self._change_option)

    def _check_names(self) -> None:
        known = self.settings.agents
        for name in [*filter(None, [self.settings.primary]), *(rule.to for rule in self.settings.rules)]:
            if name not in known:
                raise ValueError(f"there is no agent {name!r} in the team; there are {', '.join(known)}")
        if self.settings.route == routes.RULES and not self.settings.rules:
            raise ValueError("the route `rules` needs rules")

    async def close(self) -> None:
        """End all teams."""
        for session_id in list(self._teams):
            await self._close(session_id)

    # --- sessions ---------------------------------------------------------------------------------------------

    async def team_of(self, session: Session) -> Team:
        """Return the team of a session; it is made with the first prompt."""
        known = self._teams.get(session.id)
        if known is not None:
            return known
        questions, workspace = ClientQuestions(session), ClientWorkspace(session)
        settings = self.settings
        uses_client = not settings.isolate and session.connection.offers("client.fs.readTextFile")
        team = Team(
            session.cwd,
            settings.agents,
            name=settings.name,
            primary=session.get_option(PRIMARY_OPTION),
            isolate=settings.isolate,
            bounds=settings.bounds,
            permission=questions.request_permission,
            approve=questions.approve,
            guard=self._guard_of(session, questions),
            elicit=questions.elicit if session.connection.offers("client.elicitation") else None,
            tools=self._tools,
            coordinator=self._coordinator if uses_client else None,
            on_event=lambda event: self._note_event(session, event),
            report=self._report,
            route=None if settings.isolate else workspace.route,
        )
        await team.__aenter__()
        self._teams[session.id], self._workspaces[session.id] = team, workspace
        return team

    def _guard_of(self, session: Session, questions: ClientQuestions) -> MakeGuard | None:
        make = self._make_guard
        if make is None:
            return None
        return lambda name: make(name, session.roots, questions.asker(name))

    def _note_event(self, session: Session, event: TeamEvent) -> None:
        if self._on_event is not None:
            self._on_event(session.id, event)

    async def _close_session(self, session: Session) -> None:
        await self._close(session.id)

    async def _close(self, session_id: str) -> None:
        team = self._teams.pop(session_id, None)
        if team is not None:
            await team.close()
            self._workspaces.pop(session_id).close()

    async def _change_option(self, session: Session, id: str, value: Any) -> None:
        team = self._teams.get(session.id)
        if team is not None and id == PRIMARY_OPTION and value != team.primary:
            await team.handover(team.primary, value, keep="transcript")

    # --- turns ------------------------------------------------------------------------------------------------

    async def _answer(self, turn: Turn) -> str | None:
        team = await self.team_of(turn.session)
        views = ChildViews(turn)
        team.watch = views.watch
        try:
            return await self._answer_in(team, turn)
        finally:
            if turn.cancelled:
                await team.cancel()
            await self._report_usage(team, turn)

    async def _answer_in(self, team: Team, turn: Turn) -> str | None:
        command, rest = routes.split_command(turn.text)
        if command == "to":
            name, _, text = rest.partition(" ")
            return await self._run_one(team, turn, name, [TextContent(text=text), *_attachments(turn)])
        if command == "all":
            return await self._run_all(team, turn, rest)
        if command in _TEXT_COMMANDS:
            await turn.say(await _TEXT_COMMANDS[command](self, team, turn, rest))
            return None
        route = turn.session.get_option(ROUTE_OPTION)
        if route == routes.ALL:
            return await self._run_all(team, turn, await merge_prompt(turn.session, turn.prompt))
        return await self._run_one(team, turn, await self._chosen_agent(team, turn, route), turn.prompt)

    async def _chosen_agent(self, team: Team, turn: Turn, route: str) -> str:
        if route == routes.RULES:
            return routes.find_route(self.settings.rules, turn.text, team.primary)
        if route == routes.ASK and len(team.agents) > 1:
            request = ROUTE_REQUEST.format(names=", ".join(team.agents), text=turn.text)
            answer = await team.ask(team.primary, request, on_update=lambda child, update: None)
            return routes.named_agent(answer.text, list(team.agents)) or team.primary
        return team.primary

    async def _run_one(self, team: Team, turn: Turn, name: str, blocks: Sequence[ContentBlock]) -> str | None:
        shows_terminals = not team.isolate and turn.session.connection.offers("client.terminal")
        view = AnswerView(turn, shows_terminals=shows_terminals)
        child = await team.child(name)
        await child.open()
        answer = await team.ask(name, _blocks_for(child, blocks), on_update=view.show)
        return answer.stop_reason or None

    async def _run_all(self, team: Team, turn: Turn, text: str) -> str | None:
        results = await team.all(*((name, text) for name in team.agents))
        await turn.say(answers_text(list(zip(team.agents, results, strict=True))))
        return None

    async def _report_usage(self, team: Team, turn: Turn) -> None:
        if (tokens := team.budget.take_unreported()) is not None:
            await turn.report_usage(input_tokens=tokens[0], output_tokens=tokens[1])

    # --- commands ---------------------------------------------------------------------------------------------

    async def _hand_over(self, team: Team, turn: Turn, rest: str) -> str:
        name, _, keep = rest.partition(" ")
        keep = keep.strip() or KEEPS[0]
        if keep not in KEEPS:
            raise ProtocolError(Kind.INVALID_PARAMS, f"/handover NAME takes {' or '.join(KEEPS)}, not {keep!r}")
        before = team.primary
        await team.handover(before, name, keep=keep)
        await turn.set_option(PRIMARY_OPTION, name)
        await turn.send_update(SessionInfoUpdate(meta={AGENT_KEY: name}))
        return f"{name} takes over from {before}."

    async def _list_agents(self, team: Team, turn: Turn, rest: str) -> str:
        lines = [f"- {name}{' (primary)' if name == team.primary else ''}" for name in team.agents]
        return "\n".join(lines)

    async def _list_files(self, team: Team, turn: Turn, rest: str) -> str:
        team.note_files()
        rows = [f"- {os.path.relpath(path, team.cwd)}: {', '.join(names)}" for path, names in team.files().items()]
        refused = [f"- {each.reason}" for each in team.conflicts]
        return "\n".join([*(rows or ["No files were changed."]), *(["", "Refused:", *refused] if refused else [])])


_TEXT_COMMANDS: dict[str, Callable[..., Any]] = {
    "handover": ServedTeam._hand_over,
    "agents": ServedTeam._list_agents,
    "files": ServedTeam._list_files,
}


def _attachments(turn: Turn) -> list[ContentBlock]:
    return [block for block in turn.prompt if not isinstance(block, TextContent)]


def _blocks_for(child: Child, blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """Return the blocks that an agent takes; an embedded file becomes a link for one that does not take it."""
    if child.embeds:
        return list(blocks)
    return [
        ResourceLink(name=os.path.basename(block.resource.uri), uri=block.resource.uri)
        if isinstance(block, EmbeddedResource)
        else block
        for block in blocks
    ]
