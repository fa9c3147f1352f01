"""Unpack an archive by rules that leave nothing outside its folder."""
