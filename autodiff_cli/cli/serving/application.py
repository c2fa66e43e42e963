"""What the server answers: the page of a formula that was typed, and fits of a file that was chosen.

No formula is computed in the process of the server. Each question goes to a process of its own (`worker`), which is
killed when its time is over. What is kept, in memory, are the last few files, for the rows that are walked through.
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
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from autodiff_cli.cli.serving.guard import Application, guarded
from autodiff_cli.render.page.served.pages import home

MOST_TYPED = 20_000  # characters of a formula, a model or its values
MOST_BYTES = 32 << 20  # of a file
MOST_KEPT = 4  # files
MOST_AT_ONCE = 2  # processes that compute


class Limits(NamedTuple):
    """How long things may take, in seconds: a trace, a fit, and a file on its way here."""

    trace: float = 20
    fit: float = 60
    upload: float = 30


class TooLongError(Exception):
    """A question was not answered in its time. The message says so."""


class _Kept(NamedTuple):
    model: str
    values: str
    parameters: Mapping[str, Any]
    content: bytes


class Handlers:
    """What answers requests."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._free = asyncio.Semaphore(MOST_AT_ONCE)

    async def home(self, request: Request) -> Response:
        """The page of the formula in the address; without one, boxes to type into."""
        formula, values = (request.query_params.get(name, "") for name in ("formula", "values"))
        if not formula.strip():
            return HTMLResponse(home("", values, ""))
        if len(formula) + len(values) > MOST_TYPED:
            message = f"error: the formula is too long to be drawn here: {MOST_TYPED} characters at most"
            return HTMLResponse(home(formula[:MOST_TYPED], "", message), 413)
        return await self._page({"ask": "trace", "formula": formula, "values": values}, b"", self._limits.trace)

    async def learn(self, request: Request) -> Response:
        """The page that shows a fit learning, of a file that was fitted."""
        kept = self._kept.get(request.path_params["token"])
        if kept is None:
            return _lost()
        question = {"ask": "learn", "model": kept.model, "values": kept.values}
        return await self._page(question, kept.content, self._limits.fit)

    async def row(self, request: Request) -> Response:
        """The page of a row's loss, of a file that was fitted."""
        kept = self._kept.get(request.path_params["token"])
        if kept is None:
            return _lost()
        text = request.query_params.get("row", "")
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            return HTMLResponse(home("", "", f"error: a row is a whole number from 1 on, not `{text[:40]}`"), 400)
        question = {"ask": "row", "model": kept.model, "parameters": kept.parameters, "row": int(text)}
        return await self._page(question, kept.content, self._limits.trace)

    async def _page(self, question: Mapping[str, Any], content: bytes, seconds: float) -> Response:
        formula = question.get("formula", "")
        values = question["values"] if formula else ""
        try:
            answer = await self._ask(question, content, seconds)
        except TooLongError as error:
            return HTMLResponse(home(formula, values, f"error: {error}"), 504)
        if "error" in answer:
            return HTMLResponse(home(formula, values, answer["error"]))  # an answer too: what a terminal would say
        return HTMLResponse(answer["page"])

    async def fit(self, request: Request) -> Response:
        """The fit of a model to the file that is the body of the request."""
        model, values = (request.query_params.get(name, "") for name in ("model", "values"))
        if len(model) + len(values) > MOST_TYPED:
            return _error(f"the model is too long: {MOST_TYPED} characters at most", 413)
        try:
            content = await self._body(request)
        except TimeoutError:
            return _error(f"the file did not arrive within {self._limits.upload:g} seconds", 408)
        if content is None:
            return _error(f"the file is too large: {MOST_BYTES >> 20} MB at most; use autodiff train", 413)
        try:
            answer = await self._ask({"ask": "fit", "model": model, "values": values}, content, self._limits.fit)
        except TooLongError as error:
            return _error(str(error), 504)
        if "error" in answer:
            return JSONResponse(answer, 400)
        token = secrets.token_urlsafe(16)
        self._kept[token] = _Kept(model, values, answer.pop("parameters"), content)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return JSONResponse({**answer, "token": token})

    async def _body(self, request: Request) -> bytes | None:
        """The body of a request; None for one that is too large, of which no more is read."""
        found = bytearray()
        async with asyncio.timeout(self._limits.upload):
            async for piece in request.stream():
                found += piece
                if len(found) > MOST_BYTES:
                    return None
        return bytes(found)

    async def _ask(self, question: Mapping[str, Any], content: bytes, seconds: float) -> Any:
        """The answer of a process of its own. Raises TooLongError."""
        asked = json.dumps({**question, "seconds": seconds}).encode() + b"\n" + content
        words = (sys.executable, "-P", "-m", "autodiff_cli.cli.serving.worker")
        async with self._free:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            try:
                async with asyncio.timeout(seconds):
                    written, _ = await process.communicate(asked)
            except TimeoutError as error:
                raise TooLongError(
                    f"this takes more than {seconds:g} seconds; the command line has no limit"
                ) from error
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return json.loads(written) if written else {"error": "error: there are not enough time and memory for this"}


def _lost() -> Response:
    return HTMLResponse(home("", "", "error: this file is no longer kept; fit it again"), 404)


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": f"error: {message}"}, status)


def application(port: int, limits: Limits | None = None) -> Application:
    """The server as an ASGI application, for the address 127.0.0.1 and this port."""
    handlers = Handlers(limits or Limits())
    routes = [
        Route("/", handlers.home),
        Route("/row/{token}", handlers.row),
        Route("/learn/{token}", handlers.learn),
        Route("/fit", handlers.fit, methods=["POST"]),
    ]
    return guarded(Starlette(routes=routes), port)
