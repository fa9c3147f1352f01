"""A dialect whose agents send the whole vocabulary as it is."""

from __future__ import annotations

import msgspec

from dragoman.dialect.dialects import load_dialect

DIALECT = msgspec.structs.replace(load_dialect("v1"), name="wide", is_wide=True)
