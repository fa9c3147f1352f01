"""`dragoman completion`: a script that lets a shell complete our commands.

Made from the commands' own parsers, so it knows what they know. Names of agents, sessions and hosts are asked for when
they are needed. Others may have given them: a script compares and quotes them, and never has a shell read them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple

from dragoman.cli.main import COMMANDS, command_module
from dragoman.cli.parser import Parser, capture_parser
from dragoman.dialect.dialects import DIALECT_NAMES

EPILOG = """\
examples:
  source <(dragoman completion bash)                                    # in ~/.bashrc
  source <(dragoman completion zsh)                                     # in ~/.zshrc, after compinit
  dragoman completion fish > ~/.config/fish/completions/dragoman.fish"""

# What an argument wants, by the word that stands for it in the help: files, folders, a session of the user's.
_VALUE_KINDS = {"DIR": "dirs", "FILE": "files", "PATH": "files", "SESSION": "sessions", "HOST": "hosts"}


class ArgumentSpec(NamedTuple):
    """Something a command takes: an option, or (without a flag) one of its words."""

    flag: str
    takes_value: bool  # an option that is followed by a value
    choices: tuple[str, ...]
    value_kind: str  # "files", "dirs", "agents", "sessions" or nothing that we know
    purpose: str


def main(arguments: list[str]) -> int:
    """Print the script for a shell."""
    parser = Parser("completion", "bash|zsh|fish", "Print a script that completes dragoman in your shell.", EPILOG)
    parser.add_argument("shell", choices=tuple(_SHELLS), help="which shell")
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    print(_SHELLS[options.shell](argument_table()))
    return 0


def argument_table() -> dict[str, list[ArgumentSpec]]:
    """What each command takes."""
    return {name: list(_command_arguments(name)) for name in COMMANDS}


def _command_arguments(name: str) -> Iterable[ArgumentSpec]:
    # This one reads its arguments by hand, for the sake of its start, and would serve a client if it were called.
    if name == "agent":
        yield ArgumentSpec("", False, ("everything",), "", "the agent to be")
        yield ArgumentSpec("--dialect", True, ("auto", *DIALECT_NAMES), "", "the dialect to speak")
        return
    module = import_module(command_module(name))
    actions: Iterable[str] = getattr(module, "ACTIONS", ())  # a command whose actions have parsers of their own
    if actions:
        yield ArgumentSpec("", False, tuple(actions), "", "what to do")
    starts = [[action] for action in actions] or [[]]
    parsers = [parser for start in starts if (parser := capture_parser(module.main, start)) is not None]
    yield from dict.fromkeys(taken for parser in parsers for taken in _parser_arguments(parser))


def _parser_arguments(parser: Parser) -> Iterable[ArgumentSpec]:
    for action in parser._actions:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        wants = "agents" if action.dest == "agent" and metavar == "NAME" else _VALUE_KINDS.get(metavar, "")
        choices = tuple(map(str, action.choices or ()))
        takes = bool(action.option_strings) and not isinstance(action, argparse._HelpAction) and action.nargs != 0
        for flag in action.option_strings or [""]:
            yield ArgumentSpec(flag, takes, choices, wants, (action.help or "").replace("%%", "%"))


# Words that are names of ours, and after how many words they stand.
_NAME_POSITIONS = {"sessions": 2, "hosts": 1}

# What prints such names, one a line.
_LISTING = {
    "agents": "dragoman agents --names",
    "sessions": "dragoman sessions list --names",
    "hosts": "dragoman hosts --names",
}

# --- the shells -----------------------------------------------------------------------------------------------

_BASH_COMPLETIONS = {
    "files": "_dragoman_files -f",
    "dirs": "_dragoman_files -d",
    "": "COMPREPLY=()",
    **{what: f"_dragoman_names {command}" for what, command in _LISTING.items()},
}

# `cur` is the word as it is typed, with its quotes and backslashes; `head` is as much of it as readline leaves alone.
_BASH_FUNCTIONS = r"""
_dragoman_names() {
  local name quoted character bare i
  IFS= read bare <<< "$cur"
  COMPREPLY=()
  while IFS= read -r name; do
    quoted=
    case $cur in
      \'*)
        [[ $name != *\'* && $name == "${cur:1}"* ]] || continue
        quoted=$name ;;
      \"*)
        for ((i = 0; i < ${#name}; i++)); do
          character=${name:i:1}
          case $character in [\$\`\"\\]) quoted+=\\ ;; esac
          quoted+=$character
        done
        [[ $name != *\!* && $quoted == "${cur:1}"* ]] || continue ;;
      *)
        [[ $name == "$bare"* ]] || continue
        printf -v quoted %q "$name" ;;
    esac
    COMPREPLY+=("${quoted#"$head"}")
  done < <("$@" 2>/dev/null)
}
_dragoman_lines() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("${line#"$head"}"); done < <("$@")
}
_dragoman_files() {
  _dragoman_lines compgen "$1" -- "$cur"
  compopt -o filenames 2>/dev/null
}
"""


def bash_script(commands: dict[str, list[ArgumentSpec]]) -> str:
    """For bash; nothing beyond bash itself is needed."""
    values, words = [], []
    for name, takens in commands.items():
        for taken in takens:
            if taken.takes_value:
                reply = _bash_choices(taken.choices) if taken.choices else _BASH_COMPLETIONS[taken.value_kind]
                values.append(f"    '{name} {taken.flag}') {reply}; return ;;")
        known = [taken.flag for taken in takens if taken.flag] + [c for t in takens if not t.flag for c in t.choices]
        for wanted in sorted(
            {taken.value_kind for taken in takens if not taken.flag and taken.value_kind in _NAME_POSITIONS}
        ):
            # The word after the action, if there are such; a flag is completed there like everywhere.
            words.append(f'    {name}) if ((place > {_NAME_POSITIONS[wanted]})) && [ "${{cur#-}}" = "$cur" ]; then')
            words.append(f"      {_BASH_COMPLETIONS[wanted]}; return; fi; {_bash_choices(known)} ;;")
            break
        else:
            words.append(f"    {name}) {_bash_choices(known)} ;;")
    lines = "\n"
    return f"""\
{_BASH_FUNCTIONS.strip()}
_dragoman() {{
  local cur prev name head= place=0 piece i
  local -a words=("${{COMP_WORDS[0]}}")
  for ((i = 1; i <= COMP_CWORD; i++)); do
    # A word with : or @ in it comes in pieces, of which readline replaces the last.
    piece=${{COMP_WORDS[i]}}
    if ((i > 1)) && [[ $piece == [:@]* || ${{COMP_WORDS[i-1]}} == [:@]* ]] &&
      [[ -z ${{COMP_LINE-}} || $COMP_LINE == *"${{words[place]}}$piece"* ]]; then
      head=${{words[place]}}
      words[place]+=$piece
    else
      head= place=${{#words[@]}}
      words[place]=$piece
    fi
  done
  cur=${{words[place]}} prev=${{words[place-1]}} name=${{words[1]}}
  if [[ $head && $piece == [:@]* ]]; then head=$cur; fi
  if ((place <= 1)); then {_bash_choices([*commands, "--help", "--version"])}; return; fi
  for ((i = 2; i < place; i++)); do
    if [ "${{words[i]}}" = -- ]; then
      if ((i == place - 1)); then _dragoman_lines compgen -c -- "$cur"; else {_BASH_COMPLETIONS["files"]}; fi
      return
    fi
  done
  case "$name $prev" in
{lines.join(values)}
  esac
  case "$name" in
{lines.join(words)}
  esac
}}
complete -F _dragoman dragoman"""


def _bash_choices(choices: Iterable[str]) -> str:
    return f"COMPREPLY=($(compgen -W '{' '.join(choices)}' -- \"$cur\"))"


def zsh_script(commands: dict[str, list[ArgumentSpec]]) -> str:
    """For zsh: what the commands are for stands beside them."""
    wants = {"files": "_files", "dirs": "_files -/", "": " ", **{what: f"_dragoman_{what}" for what in _LISTING}}
    functions = [
        f'_dragoman_{what}() {{\n  local -a names=(${{(f)"$({command} 2>/dev/null)"}})\n  compadd "$@" -a names\n}}'
        for what, command in _LISTING.items()
    ]
    cases = []
    for name, takens in commands.items():
        arguments, places = [], iter(("1", "*"))  # zsh takes one description of the first word, and one of the rest
        for taken in sorted(takens, key=lambda each: not each.choices):
            value = f"({' '.join(taken.choices)})" if taken.choices else wants[taken.value_kind]
            purpose = _strip_shell_chars(taken.purpose)
            if taken.flag:
                arguments.append(f"'*{taken.flag}[{purpose}]{f': :{value}' if taken.takes_value else ''}'")
            elif place := next(places, ""):
                arguments.append(f"'{place}:{purpose}:{value}'")
        cases.append(f"    {name}) _arguments -S : {' '.join(arguments)} ;;")
    listing = " ".join(f"'{name}:{_strip_shell_chars(COMMANDS[name].purpose)}'" for name in commands)
    lines = "\n"
    return f"""\
#compdef dragoman
{lines.join(functions)}
_dragoman() {{
  if (( CURRENT == 2 )); then
    local -a commands=({listing})
    _describe command commands
    return
  fi
  local name=$words[2]
  shift words; (( CURRENT-- ))
  case $name in
{lines.join(cases)}
  esac
}}
compdef _dragoman dragoman"""


def fish_script(commands: dict[str, list[ArgumentSpec]]) -> str:
    """For fish."""
    wants = {"files": "-F", "dirs": "-a '(__fish_complete_directories)'"}
    wants |= {what: f"-a '({command} 2>/dev/null)'" for what, command in _LISTING.items()}
    lines = ["complete -c dragoman -f"]
    for name, takens in commands.items():
        purpose = _strip_shell_chars(COMMANDS[name].purpose)
        lines.append(f"complete -c dragoman -n __fish_use_subcommand -a {name} -d '{purpose}'")
        for taken in takens:
            line = f"complete -c dragoman -n '__fish_seen_subcommand_from {name}'"
            if taken.flag:
                line += f" -{'l' if taken.flag.startswith('--') else 's'} {taken.flag.lstrip('-')}"
                if taken.takes_value:
                    line += " -r" if taken.value_kind == "files" else " -x"
            if taken.choices:
                line += f" -a '{' '.join(taken.choices)}'"
            elif taken.value_kind:
                line += f" {wants[taken.value_kind]}"
            elif not taken.flag:
                continue
            lines.append(f"{line} -d '{_strip_shell_chars(taken.purpose)}'")
    return "\n".join(lines)


def _strip_shell_chars(text: str) -> str:
    """Words that mean nothing to a shell or to its completion."""
    return text.translate(_SHELL_CHARS)


_SHELL_CHARS = str.maketrans({"'": "’", ":": ";", **dict.fromkeys('"`[]\\$')})

_SHELLS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
