"""`dragoman completion`: print a completion script for a shell.

Generated from the parsers of the commands. Names of agents, sessions and hosts are looked up when they are needed.
Other people may have chosen these names: a script compares and quotes them, and never evaluates them.
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
  source <(dragoman completion bash)    # in ~/.bashrc
  source <(dragoman completion zsh)     # in ~/.zshrc, after compinit
  dragoman completion fish > ~/.config/fish/completions/dragoman.fish"""

# Metavar of an argument to the kind of its values.
_VALUE_KINDS = {"DIR": "dirs", "FILE": "files", "PATH": "files", "SESSION": "sessions", "HOST": "hosts"}


class ArgumentSpec(NamedTuple):
    """An argument of a command: an option, or (without a flag) a positional argument."""

    flag: str
    takes_value: bool  # an option that is followed by a value
    choices: tuple[str, ...]
    value_kind: str  # "files", "dirs", "agents", "sessions", "hosts" or empty
    purpose: str


def main(arguments: list[str]) -> int:
    """Print the script for a shell."""
    parser = Parser("completion", "bash|zsh|fish", "Print a completion script for your shell.", EPILOG)
    parser.add_argument("shell", choices=tuple(_SHELLS), help="the shell")
    options = parser.read_options(arguments)
    print(_SHELLS[options.shell](argument_table()))
    return 0


def argument_table() -> dict[str, list[ArgumentSpec]]:
    """Return the arguments of each command."""
    return {name: list(_command_arguments(name)) for name in COMMANDS}


def _command_arguments(name: str) -> Iterable[ArgumentSpec]:
    # This command parses by hand, to start fast; calling it would serve a client.
    if name == "agent":
        yield ArgumentSpec("", False, ("everything",), "", "the agent to run")
        yield ArgumentSpec("--dialect", True, ("auto", *DIALECT_NAMES), "", "the dialect to use")
        return
    module = import_module(command_module(name))
    actions: Iterable[str] = getattr(module, "ACTIONS", ())  # a command whose actions have parsers of their own
    if actions:
        yield ArgumentSpec("", False, tuple(actions), "", "what to do")
    prefixes = [[action] for action in actions] or [[]]
    parsers = [parser for prefix in prefixes if (parser := capture_parser(module.main, prefix)) is not None]
    yield from dict.fromkeys(argument for parser in parsers for argument in _parser_arguments(parser))


def _parser_arguments(parser: Parser) -> Iterable[ArgumentSpec]:
    for action in parser._actions:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        value_kind = "agents" if action.dest == "agent" and metavar == "NAME" else _VALUE_KINDS.get(metavar, "")
        choices = tuple(map(str, action.choices or ()))
        takes_value = bool(action.option_strings) and not isinstance(action, argparse._HelpAction) and action.nargs != 0
        for flag in action.option_strings or [""]:
            yield ArgumentSpec(flag, takes_value, choices, value_kind, (action.help or "").replace("%%", "%"))


# Kinds of names that are positional arguments, and after how many words they come.
_NAME_POSITIONS = {"sessions": 2, "hosts": 1}

# Commands that print such names, one per line.
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

# `cur` is the word as typed, with quotes and backslashes; `head` is the part of it that readline leaves alone.
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
    """Return the script for bash."""
    values, words = [], []
    for name, arguments in commands.items():
        for argument in arguments:
            if argument.takes_value:
                reply = _bash_choices(argument.choices) if argument.choices else _BASH_COMPLETIONS[argument.value_kind]
                values.append(f"    '{name} {argument.flag}') {reply}; return ;;")
        words.append(f"    {name}) {_bash_words(arguments)} ;;")
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


def _bash_words(arguments: list[ArgumentSpec]) -> str:
    """Return what completes a word: options after a dash, the action in the second place, then names or options."""
    flags = _bash_choices(argument.flag for argument in arguments if argument.flag)
    choices = [choice for argument in arguments if not argument.flag for choice in argument.choices]
    kinds = sorted({argument.value_kind for argument in arguments if not argument.flag} & set(_NAME_POSITIONS))
    cases = [("[[ $cur == -* ]]", flags)]
    if choices:
        cases.append(("((place == 2))", _bash_choices(choices)))
    if kinds:
        cases.append((f"((place > {_NAME_POSITIONS[kinds[0]]}))", _BASH_COMPLETIONS[kinds[0]]))
    tests = "; elif ".join(f"{test}; then {reply}" for test, reply in cases)
    return f"if {tests}; else {flags}; fi"


def _bash_choices(choices: Iterable[str]) -> str:
    return f"COMPREPLY=($(compgen -W '{' '.join(choices)}' -- \"$cur\"))"


def zsh_script(commands: dict[str, list[ArgumentSpec]]) -> str:
    """Return the script for zsh, with the purpose of each command."""
    value_actions = {
        "files": "_files",
        "dirs": "_files -/",
        "": " ",
        **{what: f"_dragoman_{what}" for what in _LISTING},
    }
    functions = [
        f'_dragoman_{what}() {{\n  local -a names=(${{(f)"$({command} 2>/dev/null)"}})\n  compadd "$@" -a names\n}}'
        for what, command in _LISTING.items()
    ]
    cases = []
    for name, specs in commands.items():
        arguments = []
        positions = iter(("1", "*"))  # zsh takes one description of the first argument, and one of the rest
        for spec in sorted(specs, key=lambda each: not each.choices):
            value = f"({' '.join(spec.choices)})" if spec.choices else value_actions[spec.value_kind]
            purpose = _strip_shell_chars(spec.purpose)
            if spec.flag:
                arguments.append(f"'*{spec.flag}[{purpose}]{f': :{value}' if spec.takes_value else ''}'")
            elif position := next(positions, ""):
                arguments.append(f"'{position}:{purpose}:{value}'")
        cases.append(f"    {name}) _arguments -S : {' '.join(arguments)} ;;")
    listing = " ".join(f"'{name}:{_strip_shell_chars(COMMANDS[name])}'" for name in commands)
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
    """Return the script for fish."""
    value_options = {"files": "-F", "dirs": "-a '(__fish_complete_directories)'"}
    value_options |= {what: f"-a '({command} 2>/dev/null)'" for what, command in _LISTING.items()}
    lines = ["complete -c dragoman -f"]
    for name, arguments in commands.items():
        purpose = _strip_shell_chars(COMMANDS[name])
        lines.append(f"complete -c dragoman -n __fish_use_subcommand -a {name} -d '{purpose}'")
        for argument in arguments:
            line = f"complete -c dragoman -n '__fish_seen_subcommand_from {name}'"
            if argument.flag:
                line += f" -{'l' if argument.flag.startswith('--') else 's'} {argument.flag.lstrip('-')}"
                if argument.takes_value:
                    line += " -r" if argument.value_kind == "files" else " -x"
            if argument.choices:
                line += f" -a '{' '.join(argument.choices)}'"
            elif argument.value_kind:
                line += f" {value_options[argument.value_kind]}"
            elif not argument.flag:
                continue
            lines.append(f"{line} -d '{_strip_shell_chars(argument.purpose)}'")
    return "\n".join(lines)


def _strip_shell_chars(text: str) -> str:
    """Return text without characters that are special to a shell or to its completion."""
    return text.translate(_SHELL_CHARS)


_SHELL_CHARS = str.maketrans({"'": "’", ":": ";", **dict.fromkeys('"`[]\\$')})

_SHELLS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
