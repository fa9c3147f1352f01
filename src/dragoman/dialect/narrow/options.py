"""Config options for clients that show only some, and the modes for those that know modes only. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dragoman.dialect.narrow.client_view import ClientView
from dragoman.dialect.narrow.loss import Loss, LossReports
from dragoman.dialect.side_data import get_member, with_members
from dragoman.schema.config import (
    ConfigCategory,
    ConfigType,
    SessionConfigOption,
    SessionMode,
    SessionModeState,
)


def narrow_options(
    options: list[SessionConfigOption], view: ClientView, losses: LossReports
) -> list[SessionConfigOption]:
    """Return the options that the client can show."""
    shown = [
        option
        for option in options
        if option.type == ConfigType.SELECT or (option.type == ConfigType.BOOLEAN and view.switches)
    ]
    if len(shown) < len(options):
        losses.add(Loss.OPTION_TYPE)
        return shown
    return options


def mode_option(options: Any) -> SessionConfigOption | None:
    """Return the option that chooses the mode; None if there is none."""
    for option in options or ():
        if option.category == ConfigCategory.MODE and option.type == ConfigType.SELECT:
            found: SessionConfigOption = option
            return found
    return None


def modes_of(option: SessionConfigOption) -> SessionModeState:
    """Return the modes that an option offers, whether grouped or not."""
    modes = [
        SessionMode(id=choice.value, name=choice.name or choice.value, description=choice.description)
        for choice in option.values
        if isinstance(choice.value, str)
    ]
    return SessionModeState(current_mode_id=str(option.current_value), available_modes=modes)


def narrow_session(result: Any, view: ClientView, losses: LossReports) -> Any:
    """Return the result that opened a session with options that the client shows, and with modes."""
    options = get_member(result, "config_options")
    if not options:
        return result
    option = mode_option(options)
    shown = narrow_options(options, view, losses)
    if shown is not options:
        result = with_members(result, config_options=shown or UNSET)
    if option is not None and not get_member(result, "modes"):
        result = with_members(result, modes=modes_of(option))
    return result
