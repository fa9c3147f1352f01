"""The prompt turn: prompt, cancel, and the cancelling of single requests (docs/protocol/prompt-turns.md)."""

from __future__ import annotations

from dragoman.schema.base import UNSET, Maybe, Model
from dragoman.schema.content import ContentBlock


class StopReason:
    """Why a turn ended; the last two are said only by some dialects."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"
    AUTH_REQUIRED = "auth_required"


class Usage(Model, kw_only=True):
    """Tokens spent."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: Maybe[int] = UNSET
    cached_read_tokens: Maybe[int] = UNSET
    cached_write_tokens: Maybe[int] = UNSET


class PromptParams(Model, kw_only=True):
    """session/prompt."""

    session_id: str
    prompt: list[ContentBlock]


class PromptResult(Model, kw_only=True):
    """The turn is over."""

    stop_reason: str
    usage: Maybe[Usage] = UNSET
    message_id: Maybe[str] = UNSET  # of the user's message, where agents give messages ids


class CancelParams(Model, kw_only=True):
    """session/cancel: end the running turn."""

    session_id: str


class CancelRequestParams(Model, kw_only=True):
    """$/cancel_request: the sender no longer needs the answer to its request."""

    request_id: int | str | None
