"""`autodiff serve`: a web page for formulas and fits, from a server on this machine."""

from __future__ import annotations

import importlib.util
import socket
from typing import Annotated

from autodiff_cli.cli.command_line import Call, command
from autodiff_cli.cli.environment import BadInput, Output
from autodiff_cli.options import Option, between

_PORT = 8765
_HOST = "127.0.0.1"
_REQUIRED_PACKAGES = ("starlette", "uvicorn")


@command()
def serve(
    call: Call,
    port: Annotated[int, Option("--port N", "Port; 0 chooses a free one.", between(0, 65535))] = _PORT,
    no_browser: Annotated[bool, Option("--no-browser", "Print the address without opening a browser.")] = False,
) -> Output:
    """Start a web page for formulas and fits, on this machine.

    The server listens on 127.0.0.1 only and answers only its own page. It reads no file but those chosen there, and
    writes none. A trace may take 20 seconds, a fit 60 seconds, and a file may have 32 MB. Press Ctrl-C to stop.

    \b
    Examples:
      autodiff serve
      autodiff serve --port 9000 --no-browser
    """
    if any(importlib.util.find_spec(name) is None for name in _REQUIRED_PACKAGES):
        raise BadInput(f"serve needs {' and '.join(_REQUIRED_PACKAGES)}: pip install {' '.join(_REQUIRED_PACKAGES)}")
    listener = _open_listener(port)
    with listener:
        port = listener.getsockname()[1]
        address = f"http://{_HOST}:{port}/"
        call.environment.stdout.write(f"{address}  (press Ctrl-C to stop)\n")
        call.environment.stdout.flush()
        if not no_browser:
            import webbrowser

            webbrowser.open(address)
        _serve_forever(listener, port)
    return Output(None, json=False)


def _open_listener(port: int) -> socket.socket:
    """Return a listening socket on 127.0.0.1.

    Raises:
        BadInput: if the port is in use or not allowed.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise BadInput(f"--port {port}: {reason}; use --port 0 for a free port") from error
    return listener


def _serve_forever(listener: socket.socket, port: int) -> None:
    """Serve requests until interrupted."""
    import uvicorn

    from autodiff_cli.cli.server import application

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
