"""The entry point. Nothing is imported before it can be interrupted: importing is most of a short run."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """The command `autodiff`: run this process's command line and return its exit status."""
    # What is imported makes no garbage: looking for it at the usual pace, and again at the end, takes a fifth of the
    # time of a short run.
    gc.set_threshold(100_000)
    try:
        from autodiff_cli.cli.environment import Environment
        from autodiff_cli.cli.running import run
        from autodiff_cli.limits import before_libraries

        before_libraries()
        return run(sys.argv[1:], Environment.of_process())
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")
        return 130  # `ExitStatus.INTERRUPTED`; its module may be the one whose import was interrupted
    finally:
        gc.freeze()
