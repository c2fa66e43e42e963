"""The exercise sheet in a browser: a printed page, and one for the key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.support import resize
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words",
    [
        "x*y+sin(x) --x 2 --y 3",
        "sigmoid(w1*x1+w2*x2+b) --w1 2 --x1=-1 --w2=-3 --x2=-2 --b=-3",
        '"a=w*x+b; h=tanh(a); o=v*h+c; (o-t)^2+0.1*w^2" --w 1 --x 2 --b 0.5 --v 1.5 --c 0.2 --t 1',
        '"exp(-(x-mu)^2/(2*sigma^2))/(sigma*sqrt(2*pi))" --x 1.2 --mu 0.4 --sigma 0.7',
        '"h1=tanh(w*x1); h2=tanh(w*x2+u*h1); h3=tanh(w*x3+u*h2); (h3-t)^2" --w .5 --x1 1 --x2=-.5 --x3 .4 --u .8 --t 1',
        '"a=w*x+b; p=sigmoid(v*tanh(a)+c); (p-t)^2+0.1*w^2+0.1*v^2" --w .5 --x 1 --b .2 --v 1.1 --c .1 --t 1',
        '"f1=tanh(u*x1+b); f2=tanh(u*x2+v*f1+b); f3=tanh(u*x3+v*f2+b); p=sigmoid(w*f3); -t*log(p)+(t-1)*log(1-p)"'
        " --u .5 --x1 1 --x2=-.5 --x3 .4 --b .1 --v .8 --w 1.1 --t 1",
        '"d1=(log(S/K)+(r+sigma^2/2)*T)/(sigma*sqrt(T)); d2=d1-sigma*sqrt(T);'
        'S*normal_cdf(d1)-K*exp(-r*T)*normal_cdf(d2)"'
        " --S 100 --K 95 --r .03 --sigma .25 --T .5",
    ],
    ids=["sum", "neuron", "ten", "eleven", "twelve", "fourteen", "twenty-one", "twenty-two"],
)
def test_the_sheet_is_one_printed_page_and_the_key_another(page: Page, tmp_path: Path, words: str) -> None:
    file = tmp_path / "sheet.html"
    assert run_cli(f"trace {words} --exercise -o {file}").status == 0
    page.goto(file.as_uri())
    for format_name in ("A4", "Letter"):
        printed = page.pdf(prefer_css_page_size=True, format=format_name)
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2, format_name


def test_the_sheet_is_filled_in_on_a_phone(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "sheet.html"
    assert run_cli(f"trace x*y+sin(x) --x 2 --y 3 --exercise -o {file}").status == 0
    page.goto(file.as_uri())
    page.get_by_label("Value of x*y", exact=True).fill("6")
    resize(page, 390, 800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_printed_drawing_can_be_read_and_numbers_of_steps_are_whole(page: Page, tmp_path: Path) -> None:
    """The graph of ten operations is three times as high as wide; step 10 is the first whose number has two digits."""
    file = tmp_path / "sheet.html"
    formula = "h = tanh(w1*x + b1); k = tanh(w2*h + b2); (v*k + c - t)^2"
    values = ["--w1=.5", "--x=1", "--b1=.1", "--w2=-.7", "--b2=.2", "--v=1.2", "--c=.1", "--t=1"]
    assert run_cli(["trace", formula, *values, "--exercise", "-o", str(file)]).status == 0
    page.goto(file.as_uri())
    resize(page, 696, 1024)  # a sheet of A4 without its margins
    page.emulate_media(media="print")
    least = page.evaluate("""Math.min(...[...document.querySelectorAll(".drawing text")]
        .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))""")
    assert least >= 6  # pixels: 4.5 points
    room, needed = page.evaluate("""(() => {
        const list = document.querySelector(".steps ol");
        const marker = Object.assign(document.createElement("span"), { textContent: "10. " });
        list.lastElementChild.append(marker);
        return [parseFloat(getComputedStyle(list).paddingLeft), marker.getBoundingClientRect().width];
    })()""")
    assert room >= needed


def test_a_sheet_of_several_pages_has_lines_to_write_on(page: Page, tmp_path: Path) -> None:
    """The steps of 27 operations do not fit on a page, so that nothing is gained by small type."""
    file = tmp_path / "sheet.html"
    names = [f"w{k}" for k in range(28)]
    values = [f"--{name}=1" for name in names]
    assert run_cli(["trace", "+".join(names), *values, "--exercise", "-o", str(file)]).status == 0
    page.goto(file.as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("document.querySelector('.steps').currentCSSZoom") == 1
