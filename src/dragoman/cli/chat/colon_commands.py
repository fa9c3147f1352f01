"""What a person can tell the conversation itself: commands that begin with a colon, so that none is the agent's.

One table: what is listed, completed and called comes from it. A text that shall begin with a colon has two.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from dragoman import ConnectionFailed, Conversation, ProtocolError
from dragoman.cli.chat.completer import Candidate, words
from dragoman.cli.connect import settings
from dragoman.cli.ui.terminal import Line, single
from dragoman.policy.modes import MODES

if TYPE_CHECKING:
    from dragoman.cli.chat.chat import Chat

MARK = ":"


class Local(NamedTuple):
    """A command: what it takes, what it does, the words that complete it, and the function."""

    takes: str
    about: str
    known: Callable[[Conversation, list[str]], Iterable[tuple[str, str]]]
    act: Callable[[Chat, str], Awaitable[None]]


def is_local(text: str) -> bool:
    """Whether this is for the conversation, not for the agent."""
    return text.startswith(MARK) and not text.startswith(MARK * 2)


def for_agent(text: str) -> str:
    """The text as the agent shall have it."""
    return text[1:] if text.startswith(MARK * 2) else text


async def obey(chat: Chat, text: str) -> None:
    """Do it; what cannot be done is said."""
    name, _, argument = text[len(MARK) :].strip().partition(" ")
    found = [each for each in COMMANDS if each == name] or [each for each in COMMANDS if name and each.startswith(name)]
    if len(found) != 1:
        chat.say(f"there is no {MARK}{name}; {MARK}help lists what there is", "yellow")
        return
    try:
        await COMMANDS[found[0]].act(chat, argument.strip())
    except ProtocolError as error:
        chat.say(error.message, "yellow")
    except ConnectionFailed:
        raise


def completed(before: str, session: Conversation) -> Iterable[Candidate]:
    """The commands, and what they take."""
    name, space, _ = before[len(MARK) :].partition(" ")
    if not space:
        for each, command in COMMANDS.items():
            if each.startswith(name):
                yield Candidate(f"{MARK}{each}{' ' if command.takes else ''}", len(before), command.about)
    elif name in COMMANDS:
        yield from words(before, COMMANDS[name].known(session, before.split()[1:]))


# --- the commands ---------------------------------------------------------------------------------------------


async def help_(chat: Chat, _: str) -> None:
    """List everything."""
    if chat.session.commands:
        chat.lines([Line("The agent's own:", "dim")])
        named = {f"/{single(each.name)}": single(each.description) for each in chat.session.commands}
        width = min(24, max(map(len, named)))
        chat.lines([Line(f"  {name:{width}}  {about}", "dim") for name, about in named.items()])
    chat.lines([Line(line, "dim") for line in KEYS.splitlines()])
    calls = {name: f"{MARK}{name} {command.takes}".rstrip() for name, command in COMMANDS.items()}
    width = max(map(len, calls.values()))
    chat.lines([Line(f"  {calls[name]:{width}}  {command.about}") for name, command in COMMANDS.items()])


KEYS = f"""\
Keys:
  Enter sends; Alt-Enter, Ctrl-J or a backslash at the end begin a new line.
  Tab completes commands and files; Up and Ctrl-R look into the history.
  Ctrl-C stops the agent, a second one ends all. Ctrl-D leaves; what a host does goes on.
  While the agent works, what you type waits for the next line; it is not sent.
  @path sends a file along. {MARK}{MARK} begins a text with a colon.
Commands of the conversation:"""


async def who(chat: Chat, _: str) -> None:
    """Who is here."""
    chat.say(f"here: {chat.others()}" if chat.others() else "nobody but you")


async def mode(chat: Chat, word: str) -> None:
    """Show or change the agent's mode."""
    if word:
        chat.say(f"the mode is {single(await settings.set_mode(chat.session, word))} now")
        return
    known = settings.modes(chat.session)
    _choices(chat, known, chat.session.mode or "", "the agent has no modes")


async def model(chat: Chat, word: str) -> None:
    """Show or change the model."""
    if word:
        chat.say(f"the model is {single(await settings.set_model(chat.session, word))} now")
        return
    option = settings.model(chat.session)
    known = settings.values(option) if option is not None else []
    _choices(chat, known, str(option.current_value) if option else "", "the agent does not let one choose the model")


async def set_(chat: Chat, argument: str) -> None:
    """Show the options, or set one."""
    name, _, value = argument.partition(" ")
    if value.strip():
        chat.say(f"{single(name)} is {single(await settings.set_option(chat.session, name, value.strip()))} now")
        return
    options = [option for option in chat.session.options if not name or option.id == name]
    for option in options:
        known = ", ".join(single(value) for value, _ in settings.values(option))
        chat.lines([Line(f"  {single(option.id)} = {single(settings.current(option))}  ({known})")])
    if not options:
        chat.say("the agent has no such option" if name else "the agent has no options", "yellow")


async def policy(chat: Chat, word: str) -> None:
    """Show or change what the agent may do without being asked about."""
    if chat.others() and not chat.lends:
        chat.say("in a host, what the agent may do is the host's to decide (dragoman serve --mode)", "yellow")
    elif not word:
        _choices(chat, [(name, "") for name in MODES], chat.leave.guard.mode(chat.session.id), "")
    elif word not in MODES:
        chat.say(f"there is no policy mode {word!r}; there are: {', '.join(MODES)}", "yellow")
    else:
        await chat.leave.guard.switch(chat.session, word)
        chat.say(f"the policy mode is {word} now")


async def plan(chat: Chat, _: str) -> None:
    """Show the plan again."""
    marks = {"completed": "[x]", "in_progress": "[>]"}
    chat.lines([Line(f"  {marks.get(entry.status, '[ ]')} {entry.content}") for entry in chat.session.plan])
    if not chat.session.plan:
        chat.say("there is no plan")


async def new(chat: Chat, _: str) -> None:
    """Begin anew: the agent forgets what was said."""
    await chat.begin_anew()
    chat.say("this is a new session")


async def quit_(chat: Chat, _: str) -> None:
    """Leave."""
    chat.is_over = True


def _choices(chat: Chat, known: list[tuple[str, str]], now: str, none: str) -> None:
    for id, name in known:
        shown = single(id) if name in ("", id) else f"{single(id)}  ({single(name)})"
        chat.lines([Line(f"  {'•' if id == now else ' '} {shown}", "bold" if id == now else "")])
    if not known:
        chat.say(none, "yellow")


def _nothing(_: Conversation, __: list[str]) -> Iterable[tuple[str, str]]:
    return ()


def _of_model(session: Conversation, _: list[str]) -> Iterable[tuple[str, str]]:
    option = settings.model(session)
    return settings.values(option) if option is not None else ()


def _of_options(session: Conversation, typed: list[str]) -> Iterable[tuple[str, str]]:
    options = {option.id: option for option in session.options}
    if typed and typed[0] in options:
        return settings.values(options[typed[0]])
    return [(id, option.name) for id, option in options.items()]


COMMANDS: dict[str, Local] = {
    "help": Local("", "this list", _nothing, help_),
    "mode": Local("[ID]", "the agent's own mode: show or change it", lambda session, _: settings.modes(session), mode),
    "model": Local("[ID]", "the model that answers: show or change it", _of_model, model),
    "set": Local("[OPTION VALUE]", "the agent's options: show or set them", _of_options, set_),
    "policy": Local("[MODE]", "what is allowed, asked or denied", lambda *_: [(each, "") for each in MODES], policy),
    "plan": Local("", "the plan as it stands", _nothing, plan),
    "who": Local("", "who else is here, in a session of a host", _nothing, who),
    "new": Local("", "begin a new session", _nothing, new),
    "quit": Local("", "leave (also Ctrl-D)", _nothing, quit_),
}
