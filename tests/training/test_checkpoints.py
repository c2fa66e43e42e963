"""Fits that end in the middle and go on: to the same bits, from a file that is always whole."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from autodiff_cli import fit
from autodiff_cli.options import OptionError, option_fields
from autodiff_cli.training import checkpoint
from autodiff_cli.training.checkpoint import CheckpointError, CheckpointFile, CheckpointState, read_checkpoint
from autodiff_cli.training.fitting.fit import Interrupted
from autodiff_cli.training.optimizers import OPTIMIZERS, Epoch
from autodiff_cli.training.options import FitOptions
from tests.each import amount, each

MODEL = "y ~ a*exp(-b*x) + c"


def decay(rows: int = 90) -> dict[str, Any]:
    x = np.linspace(0, 4, rows)
    return {"x": x, "y": 2.5 * np.exp(-1.3 * x) + 0.1 + np.random.default_rng(0).normal(0, 0.05, rows)}


def stop_at(number: int) -> Callable[[Epoch], None]:
    """Ctrl-C when an epoch has passed."""
    counted = itertools.count()

    def watch(_: Epoch) -> None:
        if next(counted) == number:
            raise KeyboardInterrupt

    return watch


def interrupted(at: int, model: str, data: Any, **options: Any) -> None:
    with pytest.raises(Interrupted):
        fit(model, data, on_epoch=stop_at(at), **options)


def assert_same(one: Any, other: Any) -> None:
    assert [*one.parameters] == [*other.parameters]
    for name, value in one.parameters.items():
        assert np.array_equal(value, other.parameters[name]), name
    for name in ("loss", "history", "epochs", "converged", "warnings", "failure", "validation_loss"):
        assert getattr(one, name) == getattr(other, name), name
    assert np.array_equal(one.covariance, other.covariance, equal_nan=True)


# --- to the same bits


def test_files_are_renamed_while_they_are_closed_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, which renames no open file and replaces none. Another run is noticed there, too."""
    path, replace = tmp_path / "fit.ckpt", Path.replace

    def replace_closed(source: Path, target: Path) -> Path:
        statuses = [os.stat(file) for file in (source, target) if os.path.exists(file)]
        for descriptor in range(256):
            with contextlib.suppress(OSError):
                opened = os.fstat(descriptor)
                assert not any(os.path.samestat(opened, status) for status in statuses)
        return replace(source, target)

    monkeypatch.setattr(checkpoint, "fcntl", None)
    monkeypatch.setattr(Path, "replace", replace_closed)
    options = {"optimizer": "adam", "epochs": 6, "checkpoint": path, "checkpoint_every": 1}
    interrupted(3, MODEL, decay(), **options)
    assert_same(fit(MODEL, decay(), resume=path, **options), fit(MODEL, decay(), optimizer="adam", epochs=6))

    def put_another(epoch: Epoch) -> None:
        if epoch.number == 3:
            other = tmp_path / "other.ckpt"
            other.write_bytes(path.read_bytes())
            replace(other, path)

    found = fit(MODEL, decay(), on_epoch=put_another, **options)
    assert any("another run writes this checkpoint" in warning for warning in found.warnings)


@pytest.mark.sampled
@pytest.mark.parametrize("schedule", ["constant", "cosine", "plateau:2:0.5"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("batch_size", [None, 16])
def test_gradient_methods_go_on_to_the_same_bits(
    tmp_path: Path, optimizer: str, batch_size: int | None, schedule: str
) -> None:
    file = tmp_path / "kept"
    options: dict[str, Any] = {"optimizer": optimizer, "epochs": 25, "batch_size": batch_size, "lr_schedule": schedule}
    interrupted(10, MODEL, decay(), checkpoint=file, checkpoint_every=1, **options)
    told: list[int] = []
    resumed = fit(MODEL, decay(), resume=file, on_epoch=lambda epoch: told.append(epoch.number), **options)
    assert told == [*range(9, 26)]
    assert_same(resumed, fit(MODEL, decay(), **options))


def test_the_last_epoch_before_an_interruption_is_saved(tmp_path: Path) -> None:
    """Also if it is not yet time for a checkpoint."""
    for options in ({"optimizer": "adam", "epochs": 12}, {"optimizer": "lbfgs"}):
        interrupted(4, MODEL, decay(), checkpoint=tmp_path / "kept", checkpoint_every=100, **options)
        told: list[Epoch] = []
        fit(MODEL, decay(), resume=tmp_path / "kept", on_epoch=told.append, **options)
        assert told[0].number == 3


def test_an_error_of_the_caller_ends_a_fit_with_its_last_epoch_saved(tmp_path: Path) -> None:
    def fail(epoch: Epoch) -> None:
        if epoch.number == 4:
            raise ZeroDivisionError

    told: list[Epoch] = []
    options: dict[str, Any] = {"optimizer": "adam", "epochs": 12}
    with pytest.raises(ZeroDivisionError):
        fit(MODEL, decay(), checkpoint=tmp_path / "kept", checkpoint_every=100, on_epoch=fail, **options)
    fit(MODEL, decay(), resume=tmp_path / "kept", on_epoch=told.append, **options)
    assert told[0].number in (3, 4)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (MODEL, {"optimizer": "lm"}),
        (MODEL, {"optimizer": "lbfgs"}),
        (MODEL, {"loss": "huber"}),
        (MODEL, {"loss": "mae"}),
        (MODEL, {"l1": 0.01}),
        (MODEL, {"bounds": {"c": (0.2, 5)}}),
        (MODEL, {"x_sigma": {"x": np.full(90, 0.01)}, "sigma": np.full(90, 0.05)}),
        pytest.param("y ~ a*sin(b*x + c)", {}, marks=pytest.mark.exhaustive),  # which looks for starts
        ("y ~ mlp(x, [4], tanh)", {"optimizer": "lbfgs", "epochs": 12}),
        (MODEL, {"optimizer": "lbfgs", "validation": 0.2, "patience": 3}),
    ],
)
def test_methods_that_converge_go_on_to_the_same_bits(tmp_path: Path, model: str, options: dict[str, Any]) -> None:
    file = tmp_path / "kept"
    whole: list[Epoch] = []
    end = fit(model, decay(), on_epoch=whole.append, **options)
    for at in (1, len(whole) // 2, len(whole) - 1):
        interrupted(at, model, decay(), checkpoint=file, checkpoint_every=1, **options)
        told: list[Epoch] = []
        assert_same(fit(model, decay(), resume=file, on_epoch=told.append, **options), end)
        assert [epoch.number for epoch in told] == [epoch.number for epoch in whole[at - 1 :]]


def test_what_is_known_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autodiff_cli import Objective

    asked: list[Any] = []
    computed = Objective._factorize
    monkeypatch.setattr(Objective, "_factorize", lambda self, theta: asked.append(theta) or computed(self, theta))
    fit(MODEL, decay(), checkpoint=tmp_path / "kept")
    whole = len(asked)
    fit(MODEL, decay(), resume=tmp_path / "kept")
    assert len(asked) - whole <= 2  # of the errors, at the end


@pytest.mark.parametrize("at", [2, 9, 19])
def test_the_best_epoch_so_far_is_saved(tmp_path: Path, at: int) -> None:
    x = np.linspace(0, 1, 40)
    data = {"x": x, "y": np.sin(9 * x) + np.random.default_rng(1).normal(0, 0.3, 40)}
    options: dict[str, Any] = {"epochs": 200, "learning_rate": 0.05, "validation": 0.3, "patience": 20, "seed": 5}
    model = "y ~ mlp(x, [12], tanh)"
    end = fit(model, data, batch_size=8, **options)
    assert end.epochs > at
    interrupted(at, model, data, batch_size=8, checkpoint=tmp_path / "kept", checkpoint_every=1, **options)
    assert_same(fit(model, data, batch_size=8, resume=tmp_path / "kept", **options), end)


def test_epochs_are_the_number_in_all(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    options: dict[str, Any] = {"optimizer": "adam", "batch_size": 16}
    fit(MODEL, decay(), epochs=10, checkpoint=file, **options)
    end = fit(MODEL, decay(), epochs=30, **options)
    assert_same(fit(MODEL, decay(), epochs=30, resume=file, checkpoint=file, **options), end)
    assert_same(fit(MODEL, decay(), epochs=30, resume=file, **options), end)  # nothing is left to do
    with pytest.raises(OptionError, match="already at epoch 30"):
        fit(MODEL, decay(), epochs=20, resume=file, **options)


def test_it_resumes_on_another_number_of_threads_and_writes_checkpoints(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    options: dict[str, Any] = {"optimizer": "adam", "epochs": 30, "batch_size": 16}
    end = fit(MODEL, decay(), **options)
    for at in (5, 4, 3):
        again = {"resume": file} if file.exists() else {}
        interrupted(at, MODEL, decay(), checkpoint=file, checkpoint_every=1, threads=at % 2 + 1, **again, **options)
    assert_same(fit(MODEL, decay(), resume=file, **options), end)


def random_options(chance: Random) -> dict[str, Any]:
    """Options of a fit that may be combined, with which it has at least a few epochs."""
    options: dict[str, Any] = {"optimizer": chance.choice([*OPTIMIZERS, "auto", "lbfgs"])}

    def add(share: float, **others: Any) -> None:
        options.update(others if chance.random() < share else {})

    if options["optimizer"] in OPTIMIZERS:
        schedule = chance.choice(["cosine", "step:3", "exponential", "plateau:2:0.5"])
        add(1, epochs=chance.randint(3, 20), learning_rate=chance.choice([0.001, 0.05, 0.2]))
        add(0.5, batch_size=chance.choice([7, 16, 64]))
        add(0.5, lr_schedule=schedule)
        add(0.3, clip_norm=0.5)
    add(0.4, loss=chance.choice(["mae", "huber", "cauchy", "soft_l1", "logcosh"]))
    add(0.0 if "loss" in options else 0.4, sigma=chance.choice(["s", "0.05"]))
    add(0.0 if "sigma" in options else 0.3, weights="1 + x")
    add(0.4, validation=0.25)
    add(0.5 if "validation" in options else 0, patience=chance.randint(1, 4), min_delta=1e-4)
    add(0.2, seed=3)
    add(0.2, **{chance.choice(["l1", "l2"]): 0.01})
    add(0.2, tolerance=1e-4)
    add(0.3, **chance.choice([{"bounds": {"c": (0.05, 5)}}, {"fixed": {"c": 0.1}}, {"start": {"a": 2.0}}]))
    return options


def test_fits_with_any_options_go_on_to_the_same_bits_or_are_refused_by_name(tmp_path: Path) -> None:
    """A change is refused with its name first: an option that decides which method `auto` chooses or where parameters
    start was reported as another method, or as other starting values.
    """
    data = {**decay(40), "s": np.full(40, 0.05)}
    for seed in range(amount(8, 60, 400)):
        chance, file = Random(seed), tmp_path / f"kept{seed}"
        options, whole, rest = random_options(chance), list[Epoch](), list[Epoch]()
        end = fit(MODEL, data, on_epoch=whole.append, **options)
        at = chance.randrange(1, len(whole))
        interrupted(at, MODEL, data, checkpoint=file, checkpoint_every=chance.choice([1, 3, 100]), **options)
        assert_same(fit(MODEL, data, resume=file, on_epoch=rest.append, **options), end)
        assert [epoch.number for epoch in rest] == [epoch.number for epoch in whole[at - 1 :]], (seed, options)
        for name in ("seed", "batch_size", "l1", "learning_rate", "validation"):
            others = {**options, name: {"seed": 7, "batch_size": 5, "validation": 0.5}.get(name, 0.03)}
            with pytest.raises((CheckpointError, OptionError)) as refusal:  # or it cannot be combined with the others
                fit(MODEL, data, resume=file, **others)
            is_invalid = isinstance(refusal.value, OptionError)
            assert is_invalid or f"it differs in its {name}" in str(refusal.value), (seed, options)


def test_a_network_with_another_seed_is_refused_by_the_seed(tmp_path: Path) -> None:
    """The seed also decides where its weights start."""
    fit("y ~ mlp(x, [3])", decay(), epochs=2, checkpoint=tmp_path / "kept")
    with pytest.raises(CheckpointError, match="it differs in its seed: `0` there, `1` here"):
        fit("y ~ mlp(x, [3])", decay(), epochs=2, seed=1, resume=tmp_path / "kept")


# --- of another fit


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": "y ~ a*exp(-b*x)"}, "model"),
        ({"data": decay(91)}, "data"),
        ({"optimizer": "sgd"}, "optimizer"),
        ({"seed": 3}, "seed"),
        ({"learning_rate": 0.2}, "learning_rate"),
        ({"batch_size": None}, "batch_size"),
        ({"start": {"a": 3}}, "bounds or start"),
        ({"bounds": {"a": (0, None)}}, "bounds or start"),
        ({"fixed": {"c": 1.0}}, "fixed"),
        ({"l2": 0.1}, "l2"),
        ({"weights": "x"}, "data"),
        ({"validation": 0.2}, "validation"),
        ({"loss": "mae"}, "loss"),
        ({"lr_schedule": "cosine"}, "lr_schedule"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused_by_name(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    options: dict[str, Any] = {"model": MODEL, "data": decay(), "optimizer": "adam", "epochs": 3, "batch_size": 16}
    fit(**options, checkpoint=tmp_path / "kept")
    with pytest.raises(CheckpointError, match=f"another fit; it differs in its .*{named}"):
        fit(**{**options, **change}, resume=tmp_path / "kept")


@each("schedule", ["constant", "cosine", "step:2", "exponential", "plateau:2"])
def test_more_epochs_give_the_same_bits_or_are_refused(tmp_path_factory: pytest.TempPathFactory, schedule: str) -> None:
    """The cosine schedule falls to 0 at the last epoch, so its first epochs depend on their number."""
    file = tmp_path_factory.mktemp("checkpoints") / "kept"
    options: dict[str, Any] = {"optimizer": "adam", "batch_size": 16, "lr_schedule": schedule}
    fit(MODEL, decay(), epochs=4, checkpoint=file, **options)
    if schedule == "cosine":
        with pytest.raises(CheckpointError, match="another fit; it differs in its epochs: `4` there, `9` here"):
            fit(MODEL, decay(), epochs=9, resume=file, **options)
    else:
        assert_same(fit(MODEL, decay(), epochs=9, resume=file, **options), fit(MODEL, decay(), epochs=9, **options))


def test_priors_are_the_same_in_any_sequence(tmp_path: Path) -> None:
    fit(MODEL, decay(), priors=["a ~ normal(2, 1)"], checkpoint=tmp_path / "kept")
    end = fit(MODEL, decay(), priors=("a ~ normal(2, 1)",), resume=tmp_path / "kept")
    assert end.priors == {"a": "normal(2, 1)"}


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("autodiff_cli.training.checkpoint.__version__", "0.0.7")
        fit(MODEL, decay(), checkpoint=tmp_path / "kept")
    with pytest.raises(CheckpointError, match=r"written by autodiff 0\.0\.7"):
        fit(MODEL, decay(), resume=tmp_path / "kept")


def test_a_file_cut_off_anywhere_or_changed_is_refused(tmp_path: Path) -> None:
    fit(MODEL, decay(), optimizer="adam", epochs=3, checkpoint=tmp_path / "kept")
    whole = (tmp_path / "kept").read_bytes()
    damaged = tmp_path / "damaged"
    for end in (0, 1, 3, 4, 20, 100, *range(200, len(whole), 97), len(whole) - 1):
        damaged.write_bytes(whole[:end])
        with pytest.raises(CheckpointError, match=r"damaged|not a checkpoint"):
            fit(MODEL, decay(), optimizer="adam", epochs=3, resume=damaged)
    refused = 0
    for place in range(0, len(whole), 61):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            again = fit(MODEL, decay(), optimizer="adam", epochs=3, resume=damaged)
        except CheckpointError:
            refused += 1
        else:  # a byte that says nothing, as a date in the archive
            assert again.epochs == 3
    assert refused > 10


@pytest.mark.parametrize(
    "change", ["optimizer_values", "history", "best_theta", "evaluations", "head", "packed", "no hash"]
)
def test_a_valid_archive_with_other_content_is_refused(tmp_path: Path, change: str) -> None:
    fit(MODEL, decay(), optimizer="adam", epochs=3, checkpoint=tmp_path / "kept")
    with np.load(tmp_path / "kept") as archive:
        arrays = dict(archive)
    if change == "head":
        head = json.loads(arrays["head"].tobytes())
        head["state"]["generator_state"] = 7
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    elif change == "no hash":
        del arrays["hash"]
    elif change != "packed":
        arrays[change] = np.zeros(1)
    with (tmp_path / "other").open("wb") as stream:
        (np.savez_compressed if change == "packed" else np.savez)(stream, **arrays)
    with pytest.raises(CheckpointError, match="other: damaged"):
        fit(MODEL, decay(), optimizer="adam", epochs=3, resume=tmp_path / "other")


@pytest.mark.parametrize("content", [b"x,y\n1,2\n", b"PK\x03\x04 but no archive", b"{}"])
def test_a_file_that_is_none_is_refused_and_never_written_over(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged|not a checkpoint"):
        fit(MODEL, decay(), resume=file)
    if not content.startswith(b"PK"):
        with pytest.raises(CheckpointError, match="it is not overwritten"):
            fit(MODEL, decay(), checkpoint=file)
        assert file.read_bytes() == content


# --- faults


def test_a_full_disk_leaves_the_old_checkpoint_and_the_fit_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept"
    options: dict[str, Any] = {"optimizer": "adam", "epochs": 12, "checkpoint": file, "checkpoint_every": 1}
    synced = [itertools.count()]
    sync = os.fsync

    def full(descriptor: int) -> None:
        if next(synced[-1]) > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    found = fit(MODEL, decay(), **options)
    synced.append(itertools.count())
    with pytest.raises(Interrupted) as caught:
        fit(MODEL, decay(), on_epoch=stop_at(9), **{**options, "checkpoint": tmp_path / "other"})
    monkeypatch.undo()
    assert found.epochs == 12
    for each_fit in (found, caught.value.fit):
        assert any("no space left on device" in warning for warning in each_fit.warnings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "other"]
    told: list[int] = []
    again = fit(MODEL, decay(), optimizer="adam", epochs=12, resume=file, on_epoch=lambda e: told.append(e.number))
    assert told[0] == 4
    assert again.parameters == found.parameters


LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # the limit would cut it off
from autodiff_cli.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
sys.exit(main())
"""


@pytest.mark.slow
def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    # A limit on the size of files is what a full disk is to a process. History makes the file grow beyond it.
    data, file = tmp_path / "decay.csv", tmp_path / "kept"
    rows = np.column_stack([*decay().values()]).tolist()
    data.write_text("x,y\n" + "".join(f"{x!r},{y!r}\n" for x, y in rows))
    method = ["--optimizer", "adam", "--batch-size", "30", "--checkpoint-every", "20", "--every", "1000"]
    command = ["train", MODEL, str(data), *method, "--checkpoint", str(file), "--epochs"]

    def run(limit: int, *more: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", LIMITED, str(limit), *command, *more]
        return subprocess.run(words, capture_output=True, text=True, timeout=120)

    ran = run(8000, "400")
    assert ran.returncode == 0, ran.stderr
    assert "could not be written: file too large" in ran.stdout
    kept = file.read_bytes()
    assert 4000 < len(kept) <= 8000
    assert run(1000, "400").returncode == 1  # not even the first one
    assert file.read_bytes() == kept
    ran = run(10**6, "400", "--resume", str(file))
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decay.csv", "kept"]


KILLED = """
import sys
import numpy as np
from autodiff_cli import fit
x = np.linspace(0, 4, 90)
again = {"resume": sys.argv[1]} if len(sys.argv) > 2 else {}
fit("y ~ a*exp(-b*x) + c", {"x": x, "y": np.exp(-x)}, optimizer="adam", epochs=10**6, batch_size=30,
    checkpoint=sys.argv[1], checkpoint_every=1, on_epoch=lambda epoch: print(epoch.number, flush=True), **again)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_valid_file(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    reached = -1
    for wait in (1, 30, 77):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(file), *(["again"] if file.exists() else [])], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            numbers = [int(process.stdout.readline()) for _ in range(wait)]
            process.send_signal(signal.SIGKILL)
        # What was told of last may not have been kept; what was told of before it was.
        assert numbers[0] >= reached
        reached = numbers[-1] - 1
    assert reached > 100
    x = np.linspace(0, 4, 90)
    told: list[int] = []
    fit(
        "y ~ a*exp(-b*x) + c",
        {"x": x, "y": np.exp(-x)},
        optimizer="adam",
        epochs=1000,
        batch_size=30,
        resume=file,
        on_epoch=lambda epoch: told.append(epoch.number),
    )
    assert told[0] >= reached


def test_two_runs_do_not_write_one_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "kept"

    def second(epoch: Epoch) -> None:
        if epoch.number == 2:
            with pytest.raises(CheckpointError, match="another run"):
                fit(MODEL, decay(), checkpoint=file)

    first = fit(MODEL, decay(), optimizer="adam", epochs=4, checkpoint=file, on_epoch=second)
    assert first.epochs == 4
    fit(MODEL, decay(), checkpoint=file)  # once the first has ended


def test_threads_write_one_after_the_other(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "kept")
    with ThreadPoolExecutor(8) as pool:
        for written in [pool.submit(file.write, {}, CheckpointState(number)) for number in range(40)]:
            written.result()
    file.close()
    assert [*tmp_path.iterdir()] == [tmp_path / "kept"]


def test_two_runs_that_begin_together(tmp_path: Path) -> None:
    one, other = CheckpointFile(tmp_path / "kept"), CheckpointFile(tmp_path / "kept")
    one.write({"of": "one"}, CheckpointState(1))
    with pytest.raises(CheckpointError, match="another run"):
        other.write({"of": "other"}, CheckpointState(2))
    one.write({"of": "one"}, CheckpointState(3))
    assert read_checkpoint(tmp_path / "kept", {"of": "one"}).reported_epochs == 3
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        fit(MODEL, decay(), checkpoint=tmp_path / "nowhere" / "kept")
    with pytest.raises(OSError, match="directory"):
        fit(MODEL, decay(), checkpoint=tmp_path)


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CheckpointError, match="not a regular file"):
        fit(MODEL, decay(), checkpoint=pipe)
    assert pipe.is_fifo()


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(OptionError, match="checkpoint"):
        fit(MODEL, decay(), checkpoint_every=3)
    with pytest.raises(OptionError, match="a checkpoint holds a single fit"):
        fit(MODEL, decay(), checkpoint="kept", starts=3)
    with pytest.raises(OptionError, match="checkpoint_every must be at least 1"):
        fit(MODEL, decay(), checkpoint="kept", checkpoint_every=0)


def test_a_checkpoint_belongs_to_the_options_that_decide_the_fit() -> None:
    """Method, weights and bounds are part of the state or of the objective, and the others change no step."""
    fields = option_fields(FitOptions)
    assert {name for name, field in fields.items() if field.option.identifies} == {
        "loss", "scale", "huber_delta", "family", "likelihood", "l1", "l2", "laplace", "seed", "learning_rate",
        "lr_schedule", "batch_size", "clip_norm", "tolerance", "validation", "priors",
    }  # fmt: skip


def test_long_values_are_shortened_in_messages() -> None:
    for length, text in ((60, "x" * 60), (61, "x" * 59 + "…")):
        assert checkpoint._abbreviate("x" * length) == f"`{text}`"
    assert checkpoint._abbreviate([1, "é"]) == '`[1, "é"]`'


@pytest.mark.parametrize("head", [{"format": "another", "identity": {}}, {"format": "autodiff checkpoint"}, [], "text"])
def test_archives_of_other_programs_are_no_checkpoints(tmp_path: Path, head: Any) -> None:
    path = tmp_path / "state.npz"
    np.savez(path, head=np.frombuffer(json.dumps(head).encode(), np.uint8), theta=np.zeros(2))
    with pytest.raises(CheckpointError, match="not a checkpoint; `train --checkpoint` writes one"):
        fit(MODEL, decay(), optimizer="adam", epochs=3, resume=path)
