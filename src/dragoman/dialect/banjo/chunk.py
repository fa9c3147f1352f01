"""A bare piece of text in banjo: v1's."""

from dragoman.dialect.v1.chunk import CHUNK

__all__ = ["CHUNK"]
