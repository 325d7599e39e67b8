"""A transport that goes the way the environment says."""

import httpx2

__all__ = ["EnvironmentTransport"]


class EnvironmentTransport(httpx2.AsyncBaseTransport):
    """Sends through the proxies of `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`.

    A client that is given a transport of its own no longer reads these variables; this one has a client inside that does.
    """

    def __init__(self) -> None:
        self._client = httpx2.AsyncClient(follow_redirects=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response, its body still to be read."""
        return await self._client.send(request, stream=True)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()
