"""TLS between nodes: whom a node trusts, and, with mutual TLS, the certificate that it shows to the others."""

from __future__ import annotations

import ssl

import msgspec

from dragoman.errors import StartFailed
from dragoman.transport.remote.address import TLS
from dragoman.transport.remote.server.asgi import CERTIFICATE
from dragoman.transport.remote.server.auth import AuthRequest


class NodeTls(msgspec.Struct, frozen=True):
    """The authority of the nodes, and the certificate and key of this one, if nodes must show theirs."""

    ca: str = ""
    certificate: tuple[str, ...] = ()

    def dial_context(self) -> TLS:
        """Return how to dial a node. The files are read each time, so that a renewed certificate counts."""
        if not self.certificate:
            return self.ca or None
        try:
            context = ssl.create_default_context(cafile=self.ca)  # and no other authority
            context.load_cert_chain(*self.certificate)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join((self.ca, *self.certificate))
            raise StartFailed(f"the certificates of this node ({files}) cannot be used: {error}") from None
        return context

    def fault(self, request: AuthRequest) -> str | None:
        """Return what is wrong with the certificate of a node that dialed."""
        # A certificate of another authority already failed the handshake.
        if not self.certificate or request.socket_cache.get(CERTIFICATE):
            return None
        return "it showed no certificate; start that node with --mutual-tls, --tls and --node-ca"
