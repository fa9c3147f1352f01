"""Parse policy.toml into rules; every error names the key and the line.

    version = 1
    mode = "default"              # only in the user's own file
    roots = ["~/notes"]           # only there: folders that every session has in addition to its own
    [[rule]]
    decision = "deny"             # allow | ask | deny
    operation = ["file_read"]     # and path, command, cwd, url, env, host, kind, tool, server, agent, mode, reason

Pure; the caller decides which files apply and whether they are trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.errors import ConfigFault
from dragoman.policy.decision import VERDICTS_BY_LABEL
from dragoman.policy.modes import MODES
from dragoman.policy.patterns import UrlPattern, path_pattern_fault, wildcards
from dragoman.policy.question import OPERATIONS, Operation
from dragoman.policy.rules import Rule, RuleFile
from dragoman.policy.shell_commands import CommandPattern
from dragoman.policy.toml_lines import TomlPath, format_path, line_number, line_numbers

# The file format version; a newer one is an error.
VERSION = 1

# Limits of a project's file. It comes with the checkout and every decision evaluates it, so it must not make decisions
# slow. Characters of the file, of a line and of a pattern; wildcards in a pattern.
PROJECT_SIZE = 64 * 1024
PROJECT_LINE = 2000
PROJECT_RULES = 500
PROJECT_PATTERNS = 1000
PROJECT_PATTERN = 500
PROJECT_WILDCARDS = 32

# How many characters of a pattern an error message repeats.
_SHOWN = 40

_TOP_KEYS = ("version", "mode", "roots", "rule")
_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")

# Conditions that apply only to some operations. A rule that combines others could never match.
_OPERATIONS_BY_CONDITION: dict[str, frozenset[str]] = {
    "path": frozenset({Operation.FILE_READ, Operation.FILE_WRITE, Operation.FILE_DELETE}),
    "command": frozenset({Operation.TERMINAL_EXECUTE, Operation.MCP_START}),
    "cwd": frozenset({Operation.TERMINAL_EXECUTE}),
    "url": frozenset({Operation.MCP_START}),
    "env": frozenset({Operation.TERMINAL_EXECUTE, Operation.MCP_START}),
    "host": frozenset({Operation.NETWORK_ACCESS}),
    "server": frozenset({Operation.MCP_TOOL, Operation.MCP_START}),
}


class ParsedPolicy:
    """The content of a policy file."""

    def __init__(self, rules: tuple[Rule, ...], mode: str | None, roots: tuple[str, ...] = ()) -> None:
        self.rules = rules
        self.mode = mode
        self.roots = roots


def parse_policy(text: str, name: str, *, is_project: bool = False) -> ParsedPolicy:
    """Parse a policy file; raise ConfigFault with all errors."""
    import tomllib

    if is_project and (fault := _too_large(text)) is not None:
        raise ConfigFault([f"{name}: {fault}"])
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigFault([f"{name}: {_format_toml_error(str(error), text)}"]) from None
    except ValueError as error:  # an integer with more digits than Python reads
        raise ConfigFault([f"{name}: a value cannot be read: {error}"]) from None
    except RecursionError:
        raise ConfigFault([f"{name}: lists or tables are nested too deeply"]) from None
    reader = _PolicyReader(name, line_numbers(text), is_project)
    parsed = reader.read_document(document)
    if reader.faults:
        raise ConfigFault(reader.faults)
    return parsed


def parse_rule_file(text: str, name: str, *, base: str = "", home: str = "", is_trusted: bool = True) -> RuleFile:
    """Parse a policy file for use in decisions."""
    rules = parse_policy(text, name, is_project=bool(base)).rules
    return RuleFile(name=name, rules=rules, base=base, home=home, is_trusted=is_trusted)


def _too_large(text: str) -> str | None:
    """Return which limit of a project's file is exceeded; None if none is."""
    if len(text) > PROJECT_SIZE:
        return f"the file has {len(text)} characters; a project's file may have at most {PROJECT_SIZE}"
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > PROJECT_LINE:
            return (
                f"line {number}: the line has {len(line)} characters; a project's file may have at most {PROJECT_LINE}"
            )
    return None


def _format_toml_error(message: str, text: str) -> str:
    """Put the line number in front of a tomllib message, as in our own errors."""
    what, _, place = message.rpartition(" (at ")
    line = place.removeprefix("line ").partition(",")[0]
    if not line.isdigit():  # "end of document"
        line = str(text.rstrip("\n").count("\n") + 1)
    return f"line {line}: {what[:1].lower()}{what[1:]}"


class _PolicyReader:
    def __init__(self, name: str, lines: dict[TomlPath, int], is_project: bool) -> None:
        self.faults: list[str] = []
        self._name = name
        self._lines = lines
        self._is_project = is_project
        self._patterns = 0

    def read_document(self, document: dict[str, Any]) -> ParsedPolicy:
        for key in document.keys() - set(_TOP_KEYS):
            self._add_fault((key,), f"unknown setting; use one of {', '.join(_TOP_KEYS)}")
        if document.get("version", VERSION) != VERSION:
            self._add_fault(("version",), f"unsupported version; this Dragoman reads version {VERSION}")
        mode = document.get("mode")
        if mode is not None and self._is_project:
            self._add_fault(("mode",), "a project cannot choose the mode; set it in your own policy file")
        elif mode is not None and (not isinstance(mode, str) or mode not in MODES):
            self._add_fault(("mode",), f"unknown mode {mode!r}; choose one of {', '.join(MODES)}")
        written = document.get("rule", [])
        if not isinstance(written, list) or not all(isinstance(rule, dict) for rule in written):
            self._add_fault(("rule",), "write each rule as a [[rule]] table")
            written = []
        if self._is_project and len(written) > PROJECT_RULES:
            self._add_fault(
                ("rule",), f"there are {len(written)} rules; a project's file may have at most {PROJECT_RULES}"
            )
            written = []
        rules = [self._read_rule(rule, ("rule", index)) for index, rule in enumerate(written)]
        found = tuple(rule for rule in rules if rule is not None)
        if self._is_project and self._patterns > PROJECT_PATTERNS:
            self._add_fault(
                ("rule",), f"there are {self._patterns} patterns; a project's file may have at most {PROJECT_PATTERNS}"
            )
        return ParsedPolicy(found, mode if isinstance(mode, str) else None, self._read_roots(document))

    def _read_roots(self, document: dict[str, Any]) -> tuple[str, ...]:
        if "roots" not in document:
            return ()
        if self._is_project:
            self._add_fault(("roots",), "a project cannot add folders; set roots in your own policy file")
            return ()
        found = self.read_paths(document["roots"], ("roots",))
        for root in found:
            if not root.startswith(("/", "~/")):
                self._add_fault(("roots",), f"{root!r}: write the full path, starting with / or ~/")
            elif set(root) & set("*?["):
                self._add_fault(("roots",), f"{root!r}: write a folder without wildcards")
        return found

    def _read_rule(self, rule: dict[str, Any], path: TomlPath) -> Rule | None:
        before = len(self.faults)
        members: dict[str, Any] = {"line": line_number(self._lines, path)}
        for key, value in rule.items():
            if key in _RULE_KEYS:
                name, read = _RULE_KEYS[key]
                members[name] = read(self, value, (*path, key))
            elif key != "decision":
                known = ", ".join(["decision", *_RULE_KEYS])
                self._add_fault((*path, key), f"unknown key; a rule may have {known}")
        verdict = VERDICTS_BY_LABEL.get(rule["decision"]) if isinstance(rule.get("decision"), str) else None
        if verdict is None:
            at = (*path, "decision") if "decision" in rule else path
            self._add_fault(at, f"decision must be one of {', '.join(VERDICTS_BY_LABEL)}")
        self._check_satisfiable(rule, members, path)
        if verdict is None or len(self.faults) > before:
            return None
        return Rule(verdict=verdict, **members)

    def _check_satisfiable(self, rule: dict[str, Any], members: dict[str, Any], path: TomlPath) -> None:
        possible = members.get("operations") or frozenset(OPERATIONS)
        for key, operations in _OPERATIONS_BY_CONDITION.items():
            if key in rule and not possible & operations:
                conditions = " and ".join(key for key in ("operation", *_OPERATIONS_BY_CONDITION) if key in rule)
                self._add_fault((*path, key), f"the rule can never match: no operation satisfies {conditions} together")
                return
            possible = possible & operations if key in rule else possible
        if "command" in rule and "url" in rule:
            self._add_fault((*path, "url"), "a server has either a command or a URL; write one rule for each")

    # --- members ----------------------------------------------------------------------------------------------

    def read_texts(self, value: Any, path: TomlPath) -> tuple[str, ...]:
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(isinstance(text, str) and text for text in listed):
            self._add_fault(path, "must be a non-empty string or a list of non-empty strings")
            return ()
        self._check_size(listed, path)
        return tuple(listed)

    def _check_size(self, patterns: list[str], path: TomlPath) -> None:
        """Count patterns, and report those that exceed the limits of a project's file."""
        self._patterns += len(patterns)
        for pattern in patterns if self._is_project else ():
            quoted = repr(pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "…")
            if len(pattern) > PROJECT_PATTERN:
                what = f"the pattern has {len(pattern)} characters; a project's file may have at most {PROJECT_PATTERN}"
                self._add_fault(path, f"{quoted}: {what}")
            elif (count := wildcards(pattern)) > PROJECT_WILDCARDS:
                what = f"the pattern has {count} wildcards (*, ?, [); a project's file may have at most"
                self._add_fault(path, f"{quoted}: {what} {PROJECT_WILDCARDS}")

    def read_text(self, value: Any, path: TomlPath) -> str:
        if not isinstance(value, str):
            self._add_fault(path, "must be a string")
            return ""
        return value

    def read_choices(self, value: Any, path: TomlPath, known: tuple[str, ...]) -> frozenset[str]:
        found = self.read_texts(value, path)
        for word in found:
            if word not in known:
                self._add_fault(path, f"unknown {path[-1]} {word!r}; choose one of {', '.join(known)}")
        return frozenset(found)

    def read_paths(self, value: Any, path: TomlPath) -> tuple[str, ...]:
        found = self.read_texts(value, path)
        for pattern in found:
            fault = path_pattern_fault(pattern)
            if fault is not None:
                self._add_fault(path, f"{pattern!r}: {fault}")
        return found

    def read_urls(self, value: Any, path: TomlPath) -> tuple[UrlPattern, ...]:
        found = []
        for pattern in self.read_texts(value, path):
            try:
                found.append(UrlPattern.parse(pattern))
            except ValueError as error:
                self._add_fault(path, f"{pattern!r}: {error}")
        return tuple(found)

    def read_commands(self, value: Any, path: TomlPath) -> tuple[CommandPattern, ...]:
        # ["git", "status"] is one command; a list that contains lists is several patterns.
        is_several = isinstance(value, list) and any(isinstance(each, list) for each in value)
        listed = value if is_several else [value]
        found = []
        for each in listed:
            if not isinstance(each, str | list):
                self._add_fault(path, 'must be a string such as "git log *", or a list of words such as ["git", "log"]')
                continue
            try:
                found.append(CommandPattern.parse(each))
            except ValueError as error:
                self._add_fault(path, str(error))
            else:
                self._check_size([each if isinstance(each, str) else " ".join(each)], path)
        return tuple(found)

    def _add_fault(self, path: TomlPath, what: str) -> None:
        self.faults.append(f"{self._name}: line {line_number(self._lines, path)}: {format_path(path)}: {what}")


# Key in the file -> field of Rule, and the function that reads it.
_RULE_KEYS: dict[str, tuple[str, Callable[[_PolicyReader, Any, TomlPath], Any]]] = {
    "operation": ("operations", lambda reader, value, path: reader.read_choices(value, path, OPERATIONS)),
    "path": ("paths", _PolicyReader.read_paths),
    "command": ("commands", _PolicyReader.read_commands),
    "cwd": ("cwds", _PolicyReader.read_paths),
    "url": ("urls", _PolicyReader.read_urls),
    "env": ("env", _PolicyReader.read_texts),
    "host": ("hosts", lambda reader, value, path: tuple(text.lower() for text in reader.read_texts(value, path))),
    "kind": ("kinds", lambda reader, value, path: reader.read_choices(value, path, _KINDS)),
    "tool": ("tools", _PolicyReader.read_texts),
    "server": ("servers", _PolicyReader.read_texts),
    "agent": ("agents", _PolicyReader.read_texts),
    "mode": ("modes", lambda reader, value, path: reader.read_choices(value, path, tuple(MODES))),
    "reason": ("reason", _PolicyReader.read_text),
}
