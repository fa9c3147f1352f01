"""Tables of banjo: its error codes, and the stop reasons it lacks (docs/protocol/dialects.md#banjo-stop-reasons)."""

from __future__ import annotations

from typing import Final

from dragoman.dialect.v1.tables import STANDARD_CODES
from dragoman.errors import Kind

NAME: Final = "banjo"

CODES: Final[dict[str, int]] = {
    **STANDARD_CODES,
    Kind.AUTH_REQUIRED: -32000,
    Kind.SESSION_NOT_FOUND: -32602,
    Kind.RESOURCE_NOT_FOUND: -32603,
    Kind.PERMISSION_DENIED: -32603,
    Kind.ACCESS_DENIED: -32602,
    Kind.INVALID_STATE: -32600,
    Kind.CAPABILITY_UNSUPPORTED: -32601,
    Kind.UNSUPPORTED_VERSION: -32001,
    Kind.CANCELLED: -32603,
    Kind.RATE_LIMITED: -32603,
    Kind.TIMEOUT: -32603,
    Kind.SESSION_EXPIRED: -32602,
    Kind.SESSION_CORRUPTED: -32602,
    Kind.TOO_LARGE: -32600,
    Kind.CONNECTION_LOST: -32603,
}

# `auth_required` is a stop reason here, `error` is not.
STOP_ERRORS: Final[dict[str, str]] = {"error": Kind.INTERNAL_ERROR}
