"""A real Chromium, the one that is installed on the system, driven by Playwright."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import leave
from tests.tools import missing, program

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

# As root there is no sandbox; the others keep the browser from looking for its maker's servers.
_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def pytest_runtest_setup() -> None:
    """Nothing here runs without both."""
    if find_spec("playwright") is None:
        missing("the page was not opened: Playwright is not installed; `pip install --group browser` has it")
    program("chromium", "chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program("chromium", "chromium"), args=_OPTIONS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def shared_page(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """The one page of all tests, and what it reported as an error or asked of the network since a test began."""
    opened = browser.new_context().new_page()
    yield opened, _troubles(opened)
    opened.context.close()


@pytest.fixture
def page(shared_page: tuple[Page, list[str]]) -> Iterator[Page]:
    """An empty page of desktop width. The test fails if anything in it is reported as an error, or asks the network.

    Opening another document leaves nothing of a test behind: pages keep no state but that of their own file.
    """
    opened, troubles = shared_page
    troubles.clear()
    opened.set_viewport_size({"width": 1280, "height": 800})
    opened.emulate_media(media="null", color_scheme="null", reduced_motion="null")
    yield opened
    leave(opened)
    assert troubles == []


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of a server, the same for all tests."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        missing("the server was not tested; `pip install -e '.[serve]'` brings what it needs")
    words = [sys.executable, "-m", "autodiff_cli", "serve", "--port", "0", "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[0]
        server.send_signal(signal.SIGINT)


@pytest.fixture
def served(browser: Browser, address: str) -> Iterator[Page]:
    """The server's first page. The test fails if anything is reported as an error, or asks another server."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    opened = context.new_page()
    troubles: list[Any] = []
    refused = "status of 400"  # browsers write down what a server refuses, such as a model with a mistake

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error" and refused not in message.text:
            troubles.append(message.text)

    opened.on("console", hear)
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("request", lambda asked: None if asked.url.startswith(address) else troubles.append(asked.url))
    opened.goto(address)
    yield opened
    context.close()
    assert troubles == []


@pytest.fixture
def page_of_its_own(browser: Browser) -> Iterator[Page]:
    """An empty page for tests that change what other pages would keep, such as the clock."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    troubles = _troubles(opened)
    yield opened
    context.close()
    assert troubles == []


def _troubles(page: Page) -> list[str]:
    """Return a list that grows with every error of a page, and every address outside it that it asks for."""
    troubles: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            troubles.append(message.text)

    def see(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "about:", "blob:")):
            troubles.append(request.url)

    page.on("console", hear)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", see)
    return troubles
