"""Which license a text is, by the phrases that make it that license."""

from __future__ import annotations

import re

# Licenses that the repository of Zed's extensions accepts, each with phrases that its text has. The more special first.
_PHRASES: dict[str, tuple[str, ...]] = {
    "Apache-2.0": (
        "apache license",
        "version 2.0, january 2004",
        "terms and conditions for use, reproduction, and distribution",
        "2. grant of copyright license.",
        "3. grant of patent license.",
        "9. accepting warranty or additional liability.",
    ),
    "BSD-3-Clause": (
        "redistribution and use in source and binary forms, with or without",
        "redistributions in binary form must reproduce the above copyright",
        "neither the name of",
    ),
    "BSD-2-Clause": (
        "redistribution and use in source and binary forms, with or without",
        "redistributions in binary form must reproduce the above copyright",
    ),
    "CC-BY-4.0": ("attribution 4.0 international", "creative commons"),
    "LGPL-3.0": ("gnu lesser general public license", "version 3, 29 june 2007"),
    "GPL-3.0": ("gnu general public license", "version 3, 29 june 2007"),
    "MIT": (
        "permission is hereby granted, free of charge, to any person obtaining a copy",
        "the above copyright notice and this permission notice shall be included in all copies",
        "the software is provided",
    ),
    "Unlicense": ("this is free and unencumbered software released into the public domain",),
    "Zlib": ("this software is provided 'as-is', without any express or implied warranty", "altered source versions"),
}

ACCEPTED = tuple(_PHRASES)


def recognize_license(text: str) -> str:
    """Return the license that a text is; "" for any other."""
    plain = re.sub(r"\s+", " ", text.replace("\u2019", "'").replace("\u2018", "'")).lower()
    return next((name for name, phrases in _PHRASES.items() if all(phrase in plain for phrase in phrases)), "")
