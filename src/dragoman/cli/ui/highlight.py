"""Colors for code in Markdown, line by line as it streams in. Needs pygments (the extra `tui`); without it, no colors.

pygments is imported at the first block of code that names its language.
"""

from __future__ import annotations

from typing import Any

# Tokens of pygments to our styles; a token takes the style of its nearest parent.
_STYLES = {
    "Token.Keyword": "keyword",
    "Token.Keyword.Constant": "number",
    "Token.Keyword.Type": "type",
    "Token.Name.Builtin": "type",
    "Token.Name.Class": "type",
    "Token.Name.Function": "function",
    "Token.Name.Decorator": "function",
    "Token.Name.Tag": "keyword",
    "Token.Name.Attribute": "function",
    "Token.Literal.String": "string",
    "Token.Literal.Number": "number",
    "Token.Operator.Word": "keyword",
    "Token.Comment": "comment",
    "Token.Generic.Inserted": "green",
    "Token.Generic.Deleted": "red",
    "Token.Generic.Heading": "bold",
}

# A longer line is data, not code; the patterns of some languages take long for it. Characters.
MAX_LINE = 1000

# Steps of a lexer for each character: some change their state several times at one place, none for ever.
MAX_STEPS = 8

# One word: what a fence says of itself may have more, such as a file name.
MAX_NAME = 40


class CodeStyler:
    """Styles the lines of one block of code."""

    def __init__(self, language: str) -> None:
        self._lexer = _find_lexer(language)
        self._states = ["root"]
        self._styles: dict[Any, str] = {}

    def pieces(self, line: str) -> list[tuple[str, str]]:
        """Return one line as pieces; without colors if the language is not known."""
        if self._lexer is None or len(line) > MAX_LINE:
            return [(line, "code")]
        pieces: list[tuple[str, str]] = []
        for token, text in self._tokens(f"{line}\n"):
            style = self._style(token)
            text = text.replace("\n", "")
            if pieces and pieces[-1][1] == style:
                pieces[-1] = (pieces[-1][0] + text, style)
            elif text:
                pieces.append((text, style))
        return pieces

    def _style(self, token: Any) -> str:
        style = self._styles.get(token)
        if style is None:
            parent = token
            while parent is not None and str(parent) not in _STYLES:
                parent = parent.parent
            style = self._styles[token] = f"code {_STYLES[str(parent)]}" if parent is not None else "code"
        return style

    def _tokens(self, text: str) -> list[tuple[Any, str]]:
        """Run the lexer over one line. The states of the line before are kept, which pygments itself does not do."""
        from pygments.token import Error, _TokenType

        lexer, states = self._lexer, self._states
        tokens: list[tuple[Any, str]] = []
        at = 0
        for _ in range(len(text) * MAX_STEPS):
            if at >= len(text):
                break
            for match_at, action, new_state in lexer._tokens[states[-1]]:
                found = match_at(text, at)
                if found is None:
                    continue
                if action is not None:
                    if type(action) is _TokenType:
                        tokens.append((action, found.group()))
                    else:
                        tokens += [(token, part) for _, token, part in action(lexer, found)]
                at = found.end()
                _change_states(states, new_state)
                break
            else:
                if text[at] == "\n":  # as pygments does: the next line begins anew
                    states[:] = ["root"]
                tokens.append((Error, text[at]))
                at += 1
        return tokens


def _change_states(states: list[str], new_state: Any) -> None:
    if new_state is None:
        return
    if isinstance(new_state, tuple):
        for state in new_state:
            if state == "#pop":
                if len(states) > 1:
                    states.pop()
            else:
                states.append(states[-1] if state == "#push" else state)
    elif isinstance(new_state, int):
        del states[max(1, len(states) + new_state) :]
    elif new_state == "#push":
        states.append(states[-1])


def _find_lexer(language: str) -> Any:
    """Return the lexer of a language; None if there is none, or none that can work line by line."""
    name = language.strip().split(" ")[0].strip("{}.").lower()
    if not name or len(name) > MAX_NAME:
        return None
    try:
        from pygments.lexer import ExtendedRegexLexer, RegexLexer
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:
        return None
    try:
        lexer = get_lexer_by_name(name)
    except ClassNotFound:
        return None
    is_usable = isinstance(lexer, RegexLexer) and not isinstance(lexer, ExtendedRegexLexer)
    # Lexers that change the tokens afterwards work on whole texts only.
    return lexer if is_usable and "root" in getattr(lexer, "_tokens", {}) else None
