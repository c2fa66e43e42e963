"""The server as an application: who is answered, with what, and how much it takes from anybody."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from unittest import mock
from urllib.parse import quote, urlencode

import pytest

from tests.support import expect_refusal, run_cli
from tests.tools import missing

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from autodiff_cli.cli.server import Limits

guard = pytest.importorskip("autodiff_cli.cli.server", reason="the extra `serve` has what the server needs")

T = TypeVar("T")
PORT = 8765
HOST = {"host": f"127.0.0.1:{PORT}"}
DECAY = b"x,y\n0,2\n1,1.2\n2,0.75\n3,0.44\n4,0.27\n"


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


@pytest.fixture
def _extra() -> None:
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        missing("the server was not tested; `pip install -e '.[serve]'` brings what it needs")


def run(asked: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine gives, in a thread of its own: a browser of other tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(asked())).result()


def scope(path: str, method: str = "GET", headers: Mapping[str, str] = HOST) -> dict[str, Any]:
    path, _, query = path.partition("?")
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "scheme": "http",
            "headers": raw, "server": ("127.0.0.1", PORT), "client": ("127.0.0.1", 1)}  # fmt: skip


def call(*requests: Any, limits: Limits | None = None) -> list[Response]:
    """The answers of one server to requests: scopes, each with the pieces of its body."""
    from autodiff_cli.cli.server import application

    async def answered() -> list[Response]:
        server = application(PORT, limits)
        return [await _one(server, *request) for request in requests]

    return run(answered)


async def _one(server: ASGIApp, asked: dict[str, Any], pieces: Iterable[bytes] = ()) -> Response:
    waiting = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    sent: list[Any] = []

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await server(asked, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Response(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]).decode())


def get(path: str, **arguments: Any) -> Response:
    (found,) = call((scope(path),), **arguments)
    return found


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": f"evil.example:{PORT}"},
        {"host": "127.0.0.1:80"},
        {"host": f"127.0.0.1.evil.example:{PORT}"},
        {},
        {**HOST, "origin": "http://evil.example"},
        {**HOST, "origin": "null"},
        {**HOST, "origin": f"https://127.0.0.1:{PORT}"},
        {**HOST, "origin": f"http://localhost:{PORT}"},
        {**HOST, "sec-fetch-site": "cross-site"},
        {**HOST, "sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_requests_of_others_are_refused(headers: dict[str, str]) -> None:
    assert guard.refusal(scope("/?formula=x", headers=headers), PORT)


@pytest.mark.parametrize(
    "headers",
    [
        HOST,
        {"host": f"localhost:{PORT}"},
        {**HOST, "origin": f"http://127.0.0.1:{PORT}", "sec-fetch-site": "same-origin"},
        {**HOST, "sec-fetch-site": "none"},
    ],
    ids=str,
)
def test_requests_of_its_own_page_are_answered(headers: dict[str, str]) -> None:
    assert guard.refusal(scope("/", headers=headers), PORT) is None


@pytest.mark.usefixtures("_extra")
class TestApplication:
    def test_a_refusal_reaches_no_handler(self) -> None:
        (found,) = call((scope("/?formula=x", headers={"host": "evil.example"}),))
        assert found.status == 403
        assert "answers only at" in found.text

    def test_home_has_boxes_and_runs_nothing_but_its_own(self) -> None:
        found = get("/")
        assert found.status == 200
        assert "Type a formula" in found.text
        assert "default-src 'none'" in found.text
        assert found.headers["x-frame-options"] == "DENY"
        assert found.headers["cache-control"] == "no-store"

    def test_a_formula_gets_its_page_and_a_mistake_its_message(self) -> None:
        page, mistake = call(
            (scope("/?" + urlencode({"formula": "x*y + sin(x)", "values": "x=2, y=3"})),),
            (scope("/?" + urlencode({"formula": "<b>sine(x)"})),),
        )
        assert 'data-node="4"' in page.text
        assert '<pre class="message" role="alert" tabindex="0">error: line 1, column 1' in mistake.text
        assert "<b>" not in mistake.text

    @pytest.mark.slow
    def test_a_fit_is_answered_and_its_rows_can_be_traced(self) -> None:
        from autodiff_cli.cli.server import application

        async def both() -> tuple[Response, Response, Response]:
            server = application(PORT)
            model = quote("y ~ a*exp(-b*x)")
            fit = await _one(server, scope(f"/fit?model={model}", "POST"), [DECAY[:10], DECAY[10:]])
            token = json.loads(fit.text)["token"]
            return fit, await _one(server, scope(f"/row/{token}?row=2")), await _one(server, scope("/row/other?row=2"))

        fit, row, lost = run(both)
        assert json.loads(fit.text)["rows"] == 5
        assert 'data-node="4"' in row.text
        assert (lost.status, "no longer stored" in lost.text) == (404, True)

    def test_the_last_files_are_stored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from autodiff_cli.cli.server import Limits, RequestHandlers, application

        async def answered(*_: Any) -> dict[str, Any]:
            return {"stored": {}, "page": ""}

        async def statuses() -> list[int]:
            server = application(PORT, Limits(stored_fits=2))
            fits = [await _one(server, scope("/fit?model=y", "POST"), [DECAY]) for _ in range(4)]
            tokens = [json.loads(fit.text)["token"] for fit in fits]
            return [(await _one(server, scope(f"/row/{token}?row=1"))).status for token in tokens]

        monkeypatch.setattr(RequestHandlers, "_ask_worker", answered)
        assert run(statuses) == [404, 404, 200, 200]

    def test_too_much_is_refused(self) -> None:
        from autodiff_cli.cli.server import Limits

        piece = bytes(1 << 20)
        long, model, file = call(
            (scope("/?formula=" + "x" * (Limits().text_length + 1)),),
            (scope("/fit?model=" + "x" * (Limits().text_length + 1), "POST"),),
            (scope("/fit?model=y", "POST"), [piece] * (Limits().file_bytes // len(piece) + 1)),
        )
        assert [found.status for found in (long, model, file)] == [413, 413, 413]
        assert "at most 32 MB" in file.text

    def test_as_much_as_is_allowed_is_not_refused(self) -> None:
        """It only takes too long here."""
        from autodiff_cli.cli.server import Limits

        model, formula = "model=y~a*x&values=a=1", "formula=x*yyy&values=x=1"
        for surplus, statuses in ((0, [504, 504, 504]), (1, [413, 413, 413])):
            texts = Limits(0.01, 0.01, text_length=len("y~a*xa=1") - surplus)
            files = Limits(0.01, 0.01, file_bytes=len(DECAY) - surplus)
            fit = scope(f"/fit?{model}", "POST"), [DECAY[:5], DECAY[5:]]
            found = [*call((scope(f"/?{formula}"),), fit, limits=texts), *call(fit, limits=files)]
            assert [each.status for each in found] == statuses

    def test_what_takes_too_long_is_ended(self) -> None:
        from autodiff_cli.cli.server import Limits

        trace, fit = call(
            (scope("/?formula=x"),), (scope("/fit?model=y~a*x", "POST"), [DECAY]), limits=Limits(0.01, 0.01)
        )
        assert [found.status for found in (trace, fit)] == [504, 504]
        assert "this takes longer than 0.01 seconds" in trace.text

    def test_a_body_that_does_not_arrive_is_not_waited_for(self) -> None:
        from autodiff_cli.cli.server import Limits, application

        async def never() -> Any:
            await asyncio.sleep(60)

        async def asked() -> Any:
            sent: list[Any] = []

            async def send(message: Any) -> None:
                sent.append(message)

            await application(PORT, Limits(upload=0.05))(scope("/fit?model=y~a*x", "POST"), never, send)
            return sent[0]["status"]

        assert run(asked) == 408

    def test_an_interrupted_upload_is_no_failure_of_the_server(self) -> None:
        from autodiff_cli.cli.server import application

        messages = [{"type": "http.request", "body": b"x,y", "more_body": True}, {"type": "http.disconnect"}]

        async def receive() -> Any:
            return messages.pop(0)

        async def send(_: Any) -> None:
            pass

        async def asked() -> None:
            await application(PORT)(scope("/fit?model=y~a*x", "POST"), receive, send)

        run(asked)  # raises no exception
        assert not messages

    def test_a_worker_gets_the_question_in_a_line_and_then_the_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from autodiff_cli.cli import server

        process = mock.Mock(wait=mock.AsyncMock(), communicate=mock.AsyncMock(return_value=(b'{"rows": 5}', None)))
        monkeypatch.setattr("asyncio.create_subprocess_exec", mock.AsyncMock(return_value=process))
        handlers: Any = SimpleNamespace(_worker_slots=asyncio.Semaphore())
        question = {"ask": "fit", "model": "y ~ a*x"}
        assert run(lambda: server.RequestHandlers._ask_worker(handlers, question, DECAY, 5.0)) == {"rows": 5}
        asked, _, content = process.communicate.call_args.args[0].partition(b"\n")
        assert (json.loads(asked), content) == ({**question, "seconds": 5.0}, DECAY)

    @pytest.mark.parametrize(
        ("text", "row"),
        [("1", 1), ("9" * 12, 10**12 - 1), ("9" * 13, None), ("", None), ("-1", None), ("1.5", None), ("\u0663", None)],
    )
    def test_rows_are_numbers_of_at_most_twelve_digits(self, text: str, row: int | None) -> None:
        from autodiff_cli.cli import server

        async def asked(question: Any, *_: Any) -> Any:
            return question["row"]

        stored = SimpleNamespace(content=b"", question={"ask": "fit", "model": "y ~ a"})
        handlers: Any = SimpleNamespace(_stored_fit=lambda _: stored, _page=asked, _limits=server.Limits())
        found = server.RequestHandlers.row(handlers, SimpleNamespace(query_params={"row": text}))  # type: ignore[arg-type]
        if row is None:
            with pytest.raises(server.RequestError, match="a row is an integer from 1"):
                run(lambda: found)
        else:
            assert run(lambda: found) == row

    @pytest.mark.parametrize(
        ("path", "method"), [("/fit", "GET"), ("/", "PUT"), ("/../etc/passwd", "GET"), ("/x", "GET")]
    )
    def test_nothing_else_is_there(self, path: str, method: str) -> None:
        (found,) = call((scope(path, method),))
        assert found.status in (403, 404, 405)


@pytest.mark.slow
@pytest.mark.usefixtures("_extra")
def test_the_command_serves_on_this_machine_alone_until_it_is_interrupted() -> None:
    words = [sys.executable, "-m", "autodiff_cli", "serve", "--port", "0", "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}?formula=x%5E2&values=x%3D3", timeout=60) as response:
            assert 'data-node="2"' in response.read().decode()
        asked = urllib.request.Request(address, headers={"Origin": "http://evil.example"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=60)
        assert refused.value.code == 403
        refused.value.close()
        taken = run_cli(["serve", "--port", address.rstrip("/").rpartition(":")[2], "--no-browser"])
        expect_refusal(taken, "use --port 0 for a free port")
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=60)
    assert server.returncode == 130
    assert "Traceback" not in errors


def test_without_the_extra_the_message_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    expect_refusal(run_cli("serve"), "pip install starlette uvicorn")


@pytest.mark.parametrize("line", ["serve --x 2", "serve --port 70000", "serve --port x"])
def test_what_it_does_not_take_is_refused(line: str) -> None:
    found = run_cli(line)
    assert (found.status, found) == (2, "")


@pytest.mark.usefixtures("_extra")
def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        expect_refusal(run_cli(f"serve --port {port}"), f"--port {port}: address already in use; use --port 0")
