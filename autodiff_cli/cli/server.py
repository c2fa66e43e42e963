"""The web server of `autodiff serve`: it checks requests and answers them.

It returns the page of a formula, and fits of an uploaded file. Nothing is computed in the process of the server: each
question goes to a worker process (`autodiff_cli.cli.worker`), which is killed when its time is over. The last few files
are stored in memory, so that the loss of their rows can be traced.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from autodiff_cli.cli.worker import FIT_OPTIONS
from autodiff_cli.render.html_page import home_page

_TRUSTED_SITES = ("same-origin", "none")  # Sec-Fetch-Site of requests by the page itself, and of typed addresses
_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def refusal(scope: Scope, port: int) -> str | None:
    """Return why a request is refused, or None if it is allowed.

    The `Host` header must name this server, which prevents DNS rebinding. `Origin` and `Sec-Fetch-Site` must not name
    another site.
    """
    headers = Headers(scope=scope)
    host, *others = (each.lower() for each in headers.getlist("host") or [""])
    if others or host not in (f"127.0.0.1:{port}", f"localhost:{port}"):
        return f"this server answers only at http://127.0.0.1:{port}/"
    if any(origin.lower() != f"http://{host}" for origin in headers.getlist("origin")):
        return "requests from another origin are refused"
    if any(site not in _TRUSTED_SITES for site in headers.getlist("sec-fetch-site")):
        return "requests from another site are refused; type or paste the address"
    return None if scope["method"] in ("GET", "HEAD", "POST") else f"the method {scope['method']} is not allowed"


def _guard(port: int) -> Middleware:
    """Return the middleware that refuses forbidden requests and adds security headers to every response."""

    async def dispatch(request: Request, call_next: RequestResponseEndpoint) -> Response:
        reason = refusal(request.scope, port)
        response = await call_next(request) if reason is None else PlainTextResponse(f"{reason}\n", 403)
        response.headers.update(_SECURITY_HEADERS)
        return response

    return Middleware(BaseHTTPMiddleware, dispatch=dispatch)


class Limits(NamedTuple):
    """The limits of the server: it shares a machine with its only user, so it may be busy, but never for long."""

    trace: float = 20  # seconds; a page that takes longer is too large to read
    fit: float = 60  # seconds
    upload: float = 30  # seconds
    text_length: int = 20_000  # characters of a formula or a model together with its values
    file_bytes: int = 32 << 20  # bytes of an uploaded file; larger files belong to the command line
    stored_fits: int = 4  # files that are kept in memory, the last ones
    workers: int = 2  # processes that compute at the same time


class RequestError(Exception):
    """Error for a request that is answered by a message.

    Args:
        message: the message.
        status: the status of the response.
        formula, values: what the page shows in its fields.
    """

    def __init__(self, message: str, status: int, formula: str = "", values: str = "") -> None:
        super().__init__(message)
        self.status, self.formula, self.values = status, formula, values


class _StoredFit(NamedTuple):
    question: Mapping[str, Any]  # with the parameters and the scale of the answer
    content: bytes


class RequestHandlers:
    """The handlers of requests."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stored_fits: OrderedDict[str, _StoredFit] = OrderedDict()
        self._worker_slots = asyncio.Semaphore(limits.workers)

    async def home(self, request: Request) -> Response:
        """Return the page of the formula in the address; without a formula, the start page."""
        formula, values = (request.query_params.get(name, "") for name in ("formula", "values"))
        if not formula.strip():
            return HTMLResponse(home_page("", values, ""))
        if len(formula) + len(values) > self._limits.text_length:
            message = f"error: the formula is too long; at most {self._limits.text_length} characters are allowed"
            raise RequestError(message, 413, formula[: self._limits.text_length])
        return await self._page({"ask": "trace", "formula": formula, "values": values}, b"", self._limits.trace)

    async def learn(self, request: Request) -> Response:
        """Return the page that shows the progress of a stored fit."""
        stored = self._stored_fit(request)
        return await self._page({**stored.question, "ask": "learn"}, stored.content, self._limits.fit)

    async def row(self, request: Request) -> Response:
        """Return the page of the loss at one row of a stored fit."""
        stored = self._stored_fit(request)
        text = request.query_params.get("row", "")
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise RequestError(f"error: a row is an integer from 1, not `{text[:40]}`", 400)
        question = {**stored.question, "ask": "row", "row": int(text)}
        return await self._page(question, stored.content, self._limits.trace)

    async def course(self, request: Request) -> Response:
        """Return a page of the course."""
        return await self._page({"ask": "course", **request.path_params}, b"", self._limits.trace)

    def _stored_fit(self, request: Request) -> _StoredFit:
        stored = self._stored_fits.get(request.path_params["token"])
        if stored is None:
            raise RequestError("error: this file is no longer stored; fit it again", 404)
        return stored

    async def _page(self, question: Mapping[str, Any], content: bytes, seconds: float) -> Response:
        return HTMLResponse((await self._ask_worker(question, content, seconds))["page"])

    async def fit(self, request: Request) -> Response:
        """Return the fit of a model to the file in the body of the request, as JSON."""
        model, values = (request.query_params.get(name, "") for name in ("model", "values"))
        options = {name: text for name in FIT_OPTIONS if (text := request.query_params.get(name, ""))}
        if len(model) + len(values) + sum(map(len, options.values())) > self._limits.text_length:
            message = f"error: the model is too long; at most {self._limits.text_length} characters are allowed"
            raise RequestError(message, 413)
        try:
            content = await asyncio.wait_for(self._read_body(request), self._limits.upload)
        except TimeoutError:
            message = f"error: the file did not arrive within {self._limits.upload:g} seconds"
            raise RequestError(message, 408) from None
        except ClientDisconnect:
            raise RequestError("error: the upload was interrupted", 400) from None  # nobody reads it
        question = {"ask": "fit", "model": model, "values": values, "options": options}
        answer = await self._ask_worker(question, content, self._limits.fit)
        token = secrets.token_urlsafe(16)
        self._stored_fits[token] = _StoredFit({**question, **answer.pop("stored")}, content)
        while len(self._stored_fits) > self._limits.stored_fits:
            self._stored_fits.popitem(last=False)
        return JSONResponse({**answer, "token": token})

    async def _read_body(self, request: Request) -> bytes:
        """Return the body of a request; reading stops where it is too large."""
        body, most = bytearray(), self._limits.file_bytes
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                words = f"at most {most >> 20} MB are allowed: use autodiff train"
                raise RequestError(f"error: the file is too large; {words}", 413)
        return bytes(body)

    async def _ask_worker(self, question: Mapping[str, Any], content: bytes, seconds: float) -> Any:
        """Run a worker process and return its answer.

        Raises:
            RequestError: if the answer is an error, or if it takes too long; the process is then killed.
        """
        formula = question.get("formula", "")
        shown = (formula, question["values"] if formula else "")
        request = json.dumps({**question, "seconds": seconds}).encode() + b"\n" + content
        command = (sys.executable, "-P", "-m", "autodiff_cli.cli.worker")
        async with self._worker_slots:
            pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
            process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=nowhere)
            try:
                async with asyncio.timeout(seconds):
                    output, _ = await process.communicate(request)
            except TimeoutError as error:
                message = f"error: this takes longer than {seconds:g} seconds; use the command line, which has no limit"
                raise RequestError(message, 504, *shown) from error
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        answer = json.loads(output) if output else {"error": "error: not enough time or memory"}
        if "error" in answer:  # the message that a terminal would show
            raise RequestError(answer["error"], 400 if question["ask"] == "fit" else 200, *shown)
        return answer


async def _error_response(request: Request, error: Exception) -> Response:
    """Return a message as JSON to the script that asks for a fit; else as a page."""
    assert isinstance(error, RequestError)
    if request.url.path == "/fit":
        return JSONResponse({"error": str(error)}, error.status)
    return HTMLResponse(home_page(error.formula, error.values, str(error)), error.status)


def application(port: int, limits: Limits | None = None) -> Starlette:
    """Return the server as an ASGI application for 127.0.0.1 and this port."""
    handlers = RequestHandlers(limits or Limits())
    routes = [
        Route("/", handlers.home),
        Route("/course/{file}", handlers.course),
        Route("/row/{token}", handlers.row),
        Route("/learn/{token}", handlers.learn),
        Route("/fit", handlers.fit, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[_guard(port)], exception_handlers={RequestError: _error_response})
