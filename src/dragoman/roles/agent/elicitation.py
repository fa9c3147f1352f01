"""Elicitation: ask the user to fill in a form or to open a link (docs/protocol/elicitation.md), if the client announced
it. The answer is checked against the form. Never ask for a secret in a form; use a link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.schema import elicitation as types

# A field of a form: a Python type, a list of choices, or the whole property.
Field = type[str] | type[bool] | type[int] | type[float] | Sequence[str] | types.ElicitationProperty
Form = Mapping[str, Field] | types.ElicitationSchema

_PROPERTY_TYPES: dict[Any, Any] = {
    str: types.StringProperty,
    bool: types.BooleanProperty,
    int: types.IntegerProperty,
    float: types.NumberProperty,
}


class Requester(Protocol):
    """What asks the client: a session or a request that is being handled."""

    @property
    def connection(self) -> Connection:
        """The connection to the client."""
        ...

    async def request(self, method: str, params: Any) -> Any:
        """Send a request to the client."""

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client."""


class ElicitationAnswer:
    """The user's answer to an elicitation. It is true if the user accepted."""

    def __init__(self, requester: Requester, action: str, content: dict[str, Any], id: str = "") -> None:
        self._requester = requester
        self.action = action  # accept | decline | cancel
        self.content = content  # the values of the form
        self.id = id  # of a link

    def __bool__(self) -> bool:
        return self.action == types.ElicitationAction.ACCEPT

    def __getitem__(self, field: str) -> Any:
        return self.content[field]

    def complete(self) -> None:
        """Tell the client that the user has finished what the link was for."""
        self._requester.notify("elicitation/complete", types.CompleteElicitationParams(elicitation_id=self.id))


async def elicit(
    requester: Requester,
    message: str,
    *,
    form: Form | None,
    url: str | None,
    scope: Mapping[str, Any],
    id: str,
) -> ElicitationAnswer:
    """Ask the user and return the answer. `scope` names a session (and a tool call) or a request."""
    if (form is None) == (url is None):
        raise ValueError("give either form= or url=")
    mode = types.ElicitationMode.FORM if url is None else types.ElicitationMode.URL
    if not requester.connection.offers(f"client.elicitation.{mode}"):
        raise ProtocolError(
            Kind.CAPABILITY_UNSUPPORTED,
            f"the client does not support elicitation in the mode {mode}",
            {"method": "elicitation/create", "capability": f"elicitation.{mode}"},
        )
    schema = None if form is None else form if isinstance(form, types.ElicitationSchema) else build_schema(form)
    params = types.CreateElicitationParams(
        message=message,
        mode=mode,
        **scope,
        requested_schema=schema or UNSET,
        url=url or UNSET,
        elicitation_id=id if url is not None else UNSET,
    )
    result = await requester.request("elicitation/create", params)
    content = dict(result.content or {})
    if schema is not None and result.action == types.ElicitationAction.ACCEPT:
        check_content(schema, content)
    return ElicitationAnswer(requester, result.action, content, id if url is not None else "")


def build_schema(form: Mapping[str, Field]) -> types.ElicitationSchema:
    """Build a form from its fields. Fields without a default are required."""
    properties = {name: _build_property(name, field) for name, field in form.items()}
    required = [name for name, field in properties.items() if getattr(field, "default", UNSET) is UNSET]
    return types.ElicitationSchema(type="object", properties=properties, required=required or UNSET)


def _build_property(name: str, field: Any) -> Any:
    if isinstance(field, type) and field in _PROPERTY_TYPES:
        return _PROPERTY_TYPES[field](title=name.replace("_", " ").capitalize())
    if isinstance(field, msgspec.Struct):
        return field
    if isinstance(field, str) or not isinstance(field, Sequence):
        raise ValueError(f"field {name!r} must be str, bool, int, float, a list of choices or a property")
    return types.StringProperty(title=name.replace("_", " ").capitalize(), enum=list(field))


def check_content(schema: types.ElicitationSchema, content: dict[str, Any]) -> None:
    """Raise unless the values match the form."""
    invalid = [name for name in schema.required or () if name not in content]
    properties: dict[str, Any] = schema.properties or {}
    invalid += [
        name for name, value in content.items() if name in properties and not _is_valid(properties[name], value)
    ]
    if invalid:
        raise ProtocolError(
            Kind.INTERNAL_ERROR, f"the client's answer does not fit the form: {', '.join(invalid)}", {"fields": invalid}
        )


def _is_valid(field: Any, value: Any) -> bool:
    match field:
        case types.StringProperty():
            choices = [*(field.enum or ()), *(option.const for option in field.one_of or ())]
            return isinstance(value, str) and (not choices or value in choices)
        case types.BooleanProperty():
            return isinstance(value, bool)
        case types.IntegerProperty():
            return isinstance(value, int) and not isinstance(value, bool)
        case types.NumberProperty():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case types.MultiSelectProperty():
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return True
