"""The icon of an agent: an SVG of 16 by 16 in one color."""
