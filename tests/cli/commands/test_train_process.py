"""`autodiff train` as a process: lines that come while it runs, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

AUTODIFF = str(Path(sys.executable).with_name("autodiff"))
LINE = [AUTODIFF, "train", "y ~ a*x + b", "-", "--optimizer", "adam", "--epochs", "1000000000"]


@pytest.mark.slow
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
        assert "interrupted; the report has the best parameters so far" in said
        assert "Traceback" not in said
        if more:
            assert json.loads(rest)["converged"] is False
        else:
            assert "fitted formula" in rest


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    data, file = tmp_path / "line.csv", tmp_path / "kept"
    data.write_text("x,y\n" + "".join(f"{k},{2 * k + k % 3}\n" for k in range(50)))
    options = ["--optimizer", "adam", "--batch-size", "10", "--lr", "1e-4", "--epochs"]
    command = [AUTODIFF, "train", "y ~ a*x + b", str(data), *options]
    long = [*command, "1000000", "--checkpoint", str(file), "--every", "1"]
    with subprocess.Popen(long, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.split()[:1] == ["50"]:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read().splitlines()
        assert process.wait(timeout=60) == 130
    shown = [int(words[0]) for words in map(str.split, rest) if len(words) == 2 and words[0].isdigit()]
    total = str(max(shown, default=50) + 5)
    ran = [
        subprocess.run([*command, total, "--json", *more], capture_output=True, text=True, check=True).stdout
        for more in ([], ["--resume", str(file)])
    ]
    assert ran[0] == ran[1]
