"""Questions to the user beyond permission: forms and links (docs/protocol/elicitation.md).

A question is one Struct for both modes and both scopes: `form` and `scope`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.schema.base import UNSET, Maybe, Model, Unknown


class ElicitationMode:
    """How a question is put."""

    FORM = "form"
    URL = "url"


class ElicitationAction:
    """What the user did with a question."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


class StringFormat:
    """Formats of text that a form can ask for."""

    EMAIL = "email"
    URI = "uri"
    DATE = "date"
    DATE_TIME = "date-time"


class EnumOption(Model, kw_only=True):
    """A value with a title."""

    const: str
    title: str
    description: Maybe[str] = UNSET


class StringProperty(Model, kw_only=True, tag_field="type", tag="string"):
    """A text field, or a choice of one."""

    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    min_length: Maybe[int] = UNSET
    max_length: Maybe[int] = UNSET
    pattern: Maybe[str] = UNSET
    format: Maybe[str] = UNSET
    default: Maybe[str] = UNSET
    enum: Maybe[list[str]] = UNSET
    one_of: Maybe[list[EnumOption]] = UNSET


class NumberProperty(Model, kw_only=True, tag_field="type", tag="number"):
    """A number field."""

    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    minimum: Maybe[float] = UNSET
    maximum: Maybe[float] = UNSET
    default: Maybe[float] = UNSET


class IntegerProperty(Model, kw_only=True, tag_field="type", tag="integer"):
    """A field for a whole number."""

    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    minimum: Maybe[int] = UNSET
    maximum: Maybe[int] = UNSET
    default: Maybe[int] = UNSET


class BooleanProperty(Model, kw_only=True, tag_field="type", tag="boolean"):
    """A yes or no field."""

    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    default: Maybe[bool] = UNSET


class MultiSelectItems(Model, kw_only=True):
    """What can be chosen: plain values (`enum`) or titled ones (`any_of`)."""

    type: Maybe[str] = UNSET
    enum: Maybe[list[str]] = UNSET
    any_of: Maybe[list[EnumOption]] = UNSET

    @property
    def form(self) -> str:
        """Which of the two it is: "plain" or "titled"."""
        return "titled" if self.any_of else "plain"


class MultiSelectProperty(Model, kw_only=True, tag_field="type", tag="array"):
    """A choice of several."""

    items: MultiSelectItems
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    min_items: Maybe[int] = UNSET
    max_items: Maybe[int] = UNSET
    default: Maybe[list[str]] = UNSET


if TYPE_CHECKING:
    ElicitationProperty: TypeAlias = (
        StringProperty | NumberProperty | IntegerProperty | BooleanProperty | MultiSelectProperty | Unknown
    )
else:
    ElicitationProperty = StringProperty | NumberProperty | IntegerProperty | BooleanProperty | MultiSelectProperty


class ElicitationSchema(Model, kw_only=True):
    """The fields of a form; flat."""

    type: Maybe[str] = UNSET
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    properties: Maybe[dict[str, ElicitationProperty]] = UNSET
    required: Maybe[list[str]] = UNSET


class CreateElicitationParams(Model, kw_only=True):
    """elicitation/create: about a session (and perhaps a tool call) or about a request still open."""

    message: str
    mode: str
    session_id: Maybe[str] = UNSET
    tool_call_id: Maybe[str] = UNSET
    request_id: Maybe[int | str] = UNSET
    requested_schema: Maybe[ElicitationSchema] = UNSET
    elicitation_id: Maybe[str] = UNSET
    url: Maybe[str] = UNSET

    @property
    def form(self) -> str:
        """How the question is put: its `mode`."""
        return self.mode

    @property
    def scope(self) -> str:
        """What the question is about: "session" or "request"."""
        return "session" if isinstance(self.session_id, str) else "request"


class CreateElicitationResult(Model, kw_only=True):
    """What the user did; `content` only with "accept" on a form."""

    action: str
    content: Maybe[dict[str, Any]] = UNSET


class CompleteElicitationParams(Model, kw_only=True):
    """elicitation/complete: what a link led to has been done."""

    elicitation_id: str
