"""A proxy of ours that changes nothing, for chains."""

from dragoman import Proxy

Proxy("pass-through").run()
