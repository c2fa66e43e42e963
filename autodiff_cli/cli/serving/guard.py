"""Who may ask the server: pages of its own, and people who type its address. Nobody else, whatever name they use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_METHODS = ("GET", "HEAD", "POST")
_OWN = ("same-origin", "none")  # what browsers say of a request of the page itself, and of an address that was typed
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


def refusal(scope: Scope, port: int) -> str | None:
    """Why a request is refused; None for one that may be answered.

    A name that leads to this machine only since somebody's name server says so (DNS rebinding) is not a name of ours;
    another site's page says so in `Origin` or in `Sec-Fetch-Site`.
    """
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), []).append(value)
    hosts = [name + b":%d" % port for name in (b"127.0.0.1", b"localhost")]
    if len(headers.get(b"host", ())) != 1 or headers[b"host"][0].lower() not in hosts:
        return f"this server is http://127.0.0.1:{port}/ and answers to no other name"
    host = headers[b"host"][0].lower()
    if any(origin.lower() != b"http://" + host for origin in headers.get(b"origin", ())):
        return "requests of another origin are refused"
    if any(site.decode("latin-1") not in _OWN for site in headers.get(b"sec-fetch-site", ())):
        return "requests of another site are refused; type the address, or paste it"
    return None if scope["method"] in _METHODS else f"{scope['method']} is not answered here"


def guarded(application: Application, port: int) -> Application:
    """An application that answers only those who may ask, and whose answers stay with them."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await application(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        reason = refusal(scope, port)
        if reason is None:
            await application(scope, receive, send_marked)
            return
        text = [(b"content-type", b"text/plain; charset=utf-8")]
        await send_marked({"type": "http.response.start", "status": 403, "headers": text})
        await send({"type": "http.response.body", "body": f"{reason}\n".encode()})

    return guard
