"""Search queries: words, "phrases" and prefixes*, all of which must match.

Parses a query into terms, matches text and makes snippets. Case and accents are ignored; anything but letters and
digits separates words. Pure; every store uses it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError

# How much text is shown around the first match, in characters.
SNIPPET_CONTEXT = 60

_TERM = re.compile(r'"([^"]*)"(\*?)|(\S+)')
_WORD = re.compile(r"[^\W_]+")


class Term(NamedTuple):
    """Consecutive words; the last one may be a prefix."""

    words: tuple[str, ...]
    is_prefix: bool

    def __str__(self) -> str:
        return f'"{" ".join(self.words)}"{"*" if self.is_prefix else ""}'


def parse_query(query: str) -> list[Term]:
    """Parse a query; raise invalid_params if it has no words."""
    found = []
    for phrase, star, word in _TERM.findall(query):
        text = phrase or word
        words = tuple(_fold_word(each) for each in _WORD.findall(text))
        if words:
            found.append(Term(words, bool(star) or (not phrase and text.endswith("*"))))
    if not found:
        raise ProtocolError(Kind.INVALID_PARAMS, "the query has no words; try: sessions search 'parse error'")
    return found


def matches(terms: list[Term], text: str) -> bool:
    """Return whether a text contains all terms."""
    words = _split_words(text)
    return all(_find_spans(term, words) for term in terms)


def snippet(terms: list[Term], text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return one line of text around the first match, and the positions of the matches in it."""
    spans = sorted(span for term in terms for span in _find_spans(term, _split_words(text)))
    first = spans[0] if spans else (0, 0)
    start = _word_start(text, first[0] - SNIPPET_CONTEXT) if first[0] > SNIPPET_CONTEXT else 0
    end = min(len(text), first[1] + SNIPPET_CONTEXT)
    before, after = ("…" if start else ""), ("…" if end < len(text) else "")
    # Replace character by character, so that the positions stay valid.
    shown = "".join(" " if char.isspace() else char for char in text[start:end])
    shift = len(before) - start
    marks = [(low + shift, high + shift) for low, high in spans if start <= low and high <= end]
    return f"{before}{shown}{after}", marks


def _word_start(text: str, near: int) -> int:
    space = text.find(" ", near, near + 20)
    return space + 1 if space >= 0 else near


def _split_words(text: str) -> list[tuple[str, int, int]]:
    return [(_fold_word(match[0]), match.start(), match.end()) for match in _WORD.finditer(text)]


def _find_spans(term: Term, words: list[tuple[str, int, int]]) -> list[tuple[int, int]]:
    *whole, last = term.words
    length = len(term.words)
    return [
        (words[place][1], words[place + length - 1][2])
        for place in range(len(words) - length + 1)
        if _word_matches(last, words[place + length - 1][0], term.is_prefix)
        and all(word == words[place + offset][0] for offset, word in enumerate(whole))
    ]


def _word_matches(wanted: str, word: str, is_prefix: bool) -> bool:
    return word.startswith(wanted) if is_prefix else word == wanted


def _fold_word(word: str) -> str:
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(char for char in plain if not unicodedata.combining(char))).lower()
