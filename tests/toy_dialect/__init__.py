"""A dialect for tests only: v1, with `chat` for `sessionId`, `say` for session/prompt and `hello` in initialize.

It has what CONTRIBUTING asks of a dialect's folder, and nothing else of the project knows it.
"""

from __future__ import annotations

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.v1.tables import CODES
from tests.toy_dialect import codec, tables

DIALECT = Dialect(
    name=tables.NAME,
    lift_call=codec.lift_call,
    lower_call=codec.lower_call,
    lift_result=codec.lift_result,
    lower_result=codec.lower_result,
    error_codes=CODES,
    chunk_forms=tables.CHUNK_FORMS,
    cancels=True,
)
