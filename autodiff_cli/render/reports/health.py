"""What an installation computes with, as lines and as JSON."""

from __future__ import annotations

from autodiff_cli.backends.health import Health
from autodiff_cli.render.paper import Paper
from autodiff_cli.render.report import Report


def health_report(found: Health) -> Report:
    """The report of `autodiff doctor`."""

    def write(paper: Paper) -> None:
        lines = {
            "much work": f"{'compiled kernels (llvm)' if found.backend == 'llvm' else 'numpy'}: {found.why}",
            "processor": found.processor,
            "functions": found.functions,
            "threads": str(found.threads),
            "cache": found.cache or "off",
        }
        for name, value in lines.items():
            if value:
                paper.line(f"{name:9}  {value}")

    return Report(write, lambda: [found._asdict()])
