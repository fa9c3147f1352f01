"""v1 with a list of models, `session/set_model`, `unstable_resumeSession`, the stop reason `auth_required` and plan
entries that have an id and no priority. v1 reads all of that too, so detection never returns banjo.
"""

from __future__ import annotations

from dragoman.dialect.banjo import codec, tables
from dragoman.dialect.banjo.emulator import BanjoAgentEmulator, ClientEmulator
from dragoman.dialect.dialects import Dialect
from dragoman.dialect.v1.codec import lift_call, lift_result
from dragoman.dialect.v1.tables import CHUNK_FORMS
from dragoman.schema.side import Side

DIALECT = Dialect(
    name=tables.NAME,
    lift_call=lift_call,
    lower_call=codec.lower_call,
    lift_result=lift_result,
    lower_result=codec.lower_result,
    error_codes=tables.CODES,
    chunk_forms=CHUNK_FORMS,
    emulators={Side.CLIENT: ClientEmulator, Side.AGENT: BanjoAgentEmulator},
    official=True,
    rejects_versions=True,
    cancels=True,
    names_auth_method=False,
)
