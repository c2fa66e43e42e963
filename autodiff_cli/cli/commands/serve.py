"""`autodiff serve`: a page to type formulas into, from a server on this machine."""

from __future__ import annotations

import importlib.util
import socket
from typing import Annotated

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.errors import BadInput

_PORT = 8765
_HOST = "127.0.0.1"
_NEEDED = ("starlette", "uvicorn")


def serve(
    context: typer.Context,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port; 0 takes one that is free.")
    ] = _PORT,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only say the address, and open nothing.")] = False,
) -> Answer:
    """A page to type formulas into and to fit files on, in the browser.

    The server answers on 127.0.0.1 only, to nobody but its own page. It reads and writes nothing but what is typed or
    chosen there; a trace may take 20 seconds, a fit 60, a file 32 MB. Ctrl-C ends it.

    \b
    Examples:
      autodiff serve
      autodiff serve --port 9000 --no-browser
    """
    call = Call.of(context)
    if call.values:
        raise BadInput(f"serve takes no values such as --{next(iter(call.values))}: they are typed into the page")
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        raise BadInput(f"serve needs {' and '.join(_NEEDED)}: install them by pip install 'autodiff-cli[serve]'")
    listener = _listener(port)
    with listener:
        port = listener.getsockname()[1]
        address = f"http://{_HOST}:{port}/"
        call.environment.stdout.write(f"{address}  (Ctrl-C ends it)\n")
        call.environment.stdout.flush()
        if not no_browser:
            import webbrowser

            webbrowser.open(address)
        _run(listener, port)
    return Answer(None, json=False)


def _listener(port: int) -> socket.socket:
    """A socket on this machine's own address. Raises BadInput where it is taken."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((_HOST, port))
        found.listen()
    except OSError as error:
        found.close()
        reason = (error.strerror or str(error)).lower()
        raise BadInput(f"--port {port}: {reason}; --port 0 takes one that is free") from error
    return found


def _run(listener: socket.socket, port: int) -> None:
    """Answer until interrupted."""
    import uvicorn

    from autodiff_cli.cli.serving.application import application

    settings = uvicorn.Config(
        application(port),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=32,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(settings).run(sockets=[listener])
