"""Networks: steps of training, and value and gradient over rows, beside PyTorch.

    python benchmarks/networks.py [--threads 1] [--rounds 9] [--backend llvm]

Both run in this process, in turn, in float64, on as many threads. A step is loss, gradients and update of the
parameters: of an epoch of some batches, the part that falls to each. Times are the least over the rounds, in
microseconds, since other work on the machine only adds; the ratio is how many times longer PyTorch takes, eager, as a
course would write the loop. Set-up is the processor time of reading, compiling and the first run, nothing being kept
from before. The last line compares a network with the same written out, number by number: here too the ratio is the
other's time by that of `mlp`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

os.environ["AUTODIFF_CACHE"] = "off"

import numpy as np
import torch
from cases import CASES

import autodiff_cli as ad
from autodiff_cli.backends.protocol import OptimizerState
from autodiff_cli.training.optimizers import OPTIMIZERS

RATE = 0.001
TURN = 0.05  # seconds that each is run at a time
Run = Callable[[], object]


class Network(NamedTuple):
    """A network as a model's text, and its batches.

    Attributes:
        batches: of how many an epoch is.
    """

    inputs: int
    hidden: tuple[int, ...]
    outputs: int
    activation: str
    batch: int
    batches: int

    @property
    def title(self) -> str:
        """What it is."""
        return f"{'-'.join(map(str, (self.inputs, *self.hidden, self.outputs)))} {self.activation}"

    @property
    def tells_classes(self) -> bool:
        """Whether it ends in a softmax."""
        return self.outputs > 1

    @property
    def text(self) -> str:
        """The model."""
        names = ", ".join(f"x{k}" for k in range(self.inputs))
        network = f"mlp([{names}], [{', '.join(map(str, self.hidden))}], {self.activation})"
        return f"y ~ softmax({network})" if self.tells_classes else f"y ~ {network}"

    def data(self) -> tuple[Any, Any]:
        """Inputs of shape (rows, inputs), and targets, for an epoch."""
        generator = np.random.default_rng(0)
        rows = self.batch * self.batches
        x = generator.normal(size=(rows, self.inputs))
        return x, np.arange(rows) % self.outputs if self.tells_classes else generator.normal(size=rows)


STEPS = (
    (Network(1, (10, 10), 1, "tanh", 32, 100), ("sgd", "adam")),
    (Network(64, (256, 256), 10, "relu", 256, 4), ("sgd", "adam")),
)
GRADIENTS = (Network(8, (32, 32), 1, "tanh", 100_000, 1), Network(64, (256, 256), 10, "relu", 256, 1))
TORCH_OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


def objective_of(network: Network, given: argparse.Namespace) -> ad.Objective:
    """The mean loss, over the rows of an epoch."""
    x, y = network.data()
    columns = {f"x{k}": np.ascontiguousarray(x[:, k]) for k in range(network.inputs)}
    return ad.Objective(network.text, {**columns, "y": y}, backend=given.backend, threads=given.threads)


def steps(network: Network, optimizer: str, given: argparse.Namespace) -> Run:
    """An epoch by autodiff."""
    objective = objective_of(network, given)
    state, run = (
        OptimizerState.initial(objective.start, OPTIMIZERS[optimizer]),
        objective.epoch_runner(OPTIMIZERS[optimizer]),
    )
    generator = np.random.default_rng(0)
    return lambda: run(state, RATE, network.batch, generator)


def gradient(network: Network, given: argparse.Namespace) -> Run:
    """Value and gradient by autodiff."""
    objective = objective_of(network, given)
    return lambda: objective.value_and_grad(objective.start)


def by_torch(network: Network, optimizer: str | None) -> Run:
    """The same by PyTorch: an epoch, or value and gradient where no optimizer is named."""
    x, y = (torch.from_numpy(values) for values in network.data())
    layers: list[torch.nn.Module] = []
    for width, following in pairwise((network.inputs, *network.hidden, network.outputs)):
        layers += [torch.nn.Linear(width, following), ACTIVATIONS[network.activation]()]
    model = torch.nn.Sequential(*layers[:-1])
    loss_of = torch.nn.CrossEntropyLoss() if network.tells_classes else torch.nn.MSELoss()
    target = y if network.tells_classes else y[:, None]
    rule = TORCH_OPTIMIZERS[optimizer](model.parameters(), lr=RATE) if optimizer else None
    batches = [*zip(x.split(network.batch), target.split(network.batch), strict=True)]

    def epoch() -> None:
        for inputs, wanted in batches:
            model.zero_grad()
            loss_of(model(inputs), wanted).backward()
            if rule:
                rule.step()

    return epoch


def ready(make: Callable[[], Run]) -> tuple[Run, float]:
    """What is made, after its first run, and the processor time that both took in seconds."""
    begun = time.process_time()
    run = make()
    run()
    return run, time.process_time() - begun


def compared(ours: Run, theirs: Run, rounds: int) -> tuple[float, float]:
    """Seconds that each takes, the least of some rounds in turn."""
    found = [float("inf")] * 2
    for _ in range(rounds):
        for k, run in enumerate((ours, theirs)):
            end = time.perf_counter() + TURN
            while (begun := time.perf_counter()) < end:
                run()
                found[k] = min(found[k], time.perf_counter() - begun)
    return found[0], found[1]


def line(title: str, made: tuple[Run, float], theirs: Run, rounds: int, count: int = 1) -> None:
    """Measure and print."""
    ours, set_up = made
    a, b = (1e6 * each / count for each in compared(ours, theirs, rounds))
    print(f"{title:<56}{a:>10.1f}{b:>10.1f}{b / a:>8.2f}{1e3 * set_up:>10.0f}", flush=True)


def main() -> None:
    """All networks, one after the other."""
    parser = argparse.ArgumentParser(description="Networks beside PyTorch.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--backend", default="llvm", choices=("auto", "numpy", "llvm"))
    given = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(given.threads)
    ad.Objective("y ~ a", {"y": [1.0, 2.0]}, backend="llvm").value_and_grad([1.0])  # load what is needed
    print(f"{'microseconds':<56}{'autodiff':>10}{'torch':>10}{'ratio':>8}{'set-up ms':>10}")
    for network, optimizers in STEPS:
        for optimizer in optimizers:
            title = f"step of {network.title}, batch {network.batch}, {optimizer}"
            made = ready(partial(steps, network, optimizer, given))
            line(title, made, by_torch(network, optimizer), given.rounds, network.batches)
    for network in GRADIENTS:
        title = f"gradient of {network.title}, {network.batch:,} rows"
        line(title, ready(partial(gradient, network, given)), by_torch(network, None), given.rounds)
    x = np.random.default_rng(0).normal(size=100_000)
    layers, numbers = (
        ad.Objective(text, {"x": x, "y": np.cos(x)}, backend=given.backend, threads=given.threads)
        for text in ("y ~ mlp(x, [10, 10], tanh)", CASES["d"].model)
    )
    made = ready(lambda: lambda: layers.value_and_grad(layers.start))
    title = "gradient of 1-10-10-1 tanh / written out, 100,000 rows"
    line(title, made, lambda: numbers.value_and_grad(numbers.start), given.rounds)


if __name__ == "__main__":
    main()
