"""Tables of banjo: its error codes, and the stop reasons it lacks (docs/protocol/dialects.md#banjo-stop-reasons)."""

from __future__ import annotations

from typing import Final

from dragoman.dialect.v1.tables import CODES as V1_CODES
from dragoman.errors import Kind

NAME: Final = "banjo"

# Those that differ from v1's.
CODES: Final[dict[str, int]] = {
    **V1_CODES,
    Kind.SESSION_NOT_FOUND: -32602,
    Kind.RESOURCE_NOT_FOUND: -32603,
    Kind.UNSUPPORTED_VERSION: -32001,
    Kind.CANCELLED: -32603,
    Kind.SESSION_EXPIRED: -32602,
    Kind.SESSION_CORRUPTED: -32602,
}

# `auth_required` is a stop reason here, `error` is not.
STOP_ERRORS: Final[dict[str, str]] = {"error": Kind.INTERNAL_ERROR}
