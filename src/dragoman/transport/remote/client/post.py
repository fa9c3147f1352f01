"""Send POSTs to one server, and retry temporary failures.

A message that was interrupted may have arrived: it is sent again only if the server counts messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.errors import TransportClosed
from dragoman.transport.remote.address import RemoteAddress, RemoteOptions
from dragoman.transport.remote.client.http_client import HttpAnswer, HttpClient, NotConnected
from dragoman.transport.remote.errors import network_error, status_error
from dragoman.transport.remote.retry import Outage, RetryLoop

# Refused without being processed: the same message may be sent later, to any server.
_RETRY_STATUSES = frozenset({408, 425, 429, 503})


class Poster:
    """Sends the POSTs of one connection."""

    def __init__(self, client: HttpClient, address: RemoteAddress, remote: RemoteOptions, outage: Outage) -> None:
        self.server_deduplicates = False  # whether the server delivers a message only once if it gets it twice
        self.may_have_arrived = False  # whether the current message may have reached the server
        self._client = client
        self._address = address
        self._backoff = remote.backoff
        self._outage = outage

    async def post_initialize(self, data: bytes) -> HttpAnswer:
        """Post the first message of a connection, without retry."""
        return await self._post_once(data, {})

    async def post_with_retry(self, data: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Post a message until the server has taken or refused it. Raise ConnectionFailed."""

        async def attempt() -> HttpAnswer:
            answer = await self._post_once(data, headers)
            if answer.status_code < 300:
                return answer
            error = status_error(self._address.display_url, answer.status_code, answer.headers, answer.content)
            if answer.status_code in _RETRY_STATUSES or (error.is_passing and self.server_deduplicates):
                raise error
            return answer

        reason = "a message could not be sent"
        return await RetryLoop(f"agent {self._address.display_url}", self._backoff, self._outage, reason).run(attempt)

    async def _post_once(self, data: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        before, self.may_have_arrived = self.may_have_arrived, True  # unknown while it is being sent
        try:
            answer = await self._client.post(data, headers)
        except NotConnected as error:
            self.may_have_arrived = before
            raise network_error(self._address.display_url, error) from None
        except Exception as error:  # httpx also raises errors of its parts, such as the end of a TLS stream
            fault = network_error(self._address.display_url, error)
            if headers and not self.server_deduplicates:
                raise TransportClosed(
                    f"{fault}; a message may or may not have arrived: load the session again"
                ) from None
            raise fault from None
        if answer.status_code in (404, 410) or answer.status_code in _RETRY_STATUSES:
            self.may_have_arrived = (
                before  # a server that does not know the connection has not taken the message either
            )
        return answer
