"""[registry] of config.toml: where agents come from, and whom to trust on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.config.toml_reader import TomlReader, member_readers

OFFICIAL_URL = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json"


class RegistrySection(msgspec.Struct, frozen=True, kw_only=True):
    """[registry]: indexes in the order in which they are asked, mirrors of downloads, and a certificate authority."""

    urls: tuple[str, ...] = (OFFICIAL_URL,)  # addresses, files or folders; an earlier one hides the ids of later ones
    mirror: Mapping[str, str] = {}  # beginning of a download's address -> what to use instead
    ca: str = ""  # a file with certificate authorities, besides those of the system
    node: str = ""  # the node to use; "" looks for one


def read_registry_section(reader: TomlReader, value: Any) -> RegistrySection:
    """Return [registry]; errors are added to the reader."""
    table = reader.read_table(value, ("registry",), "write it as a table: [registry]")
    members = reader.read_members(table, ("registry",), _KEYS, "[registry]")
    return RegistrySection(**members) if members else RegistrySection()


_KEYS = member_readers(RegistrySection)
