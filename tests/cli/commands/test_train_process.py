"""`autodiff train` as a process: lines that come while it runs, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

AUTODIFF = str(Path(sys.executable).with_name("autodiff"))
LINE = [AUTODIFF, "train", "y ~ a*x + b", "-", "--optimizer", "adam", "--epochs", "1000000000"]


def test_ctrl_c_ends_with_the_best_parameters_and_status_130() -> None:
    for more in ([], ["--json"]):
        with subprocess.Popen(
            [*LINE, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin
            assert process.stdout
            assert process.stderr
            process.stdin.write("x,y\n0,1\n1,3\n2,4\n")
            process.stdin.close()
            live = process.stderr if more else process.stdout
            while not next(live).startswith("       10 "):
                pass
            process.send_signal(signal.SIGINT)
            rest, said = process.stdout.read(), process.stderr.read()
        assert process.returncode == 130
        assert "interrupted; these are the best parameters so far" in said
        assert "Traceback" not in said
        if more:
            assert json.loads(rest)["converged"] is False
        else:
            assert "fitted formula" in rest
