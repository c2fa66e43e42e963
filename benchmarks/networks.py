"""How long a step of training takes (loss, gradients, update of the parameters), against PyTorch.

Both run in this process, in turn, in float64, on two threads, with the same batch at every step. Of several rounds the
quietest is printed, by the median over its steps (other work on the machine only adds), and the ratio. PyTorch is
eager, as a course would write the loop.

    python benchmarks/networks.py [ROUNDS]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

import autodiff_cli as ad
from autodiff_cli.backends.protocol import State
from autodiff_cli.training.methods.optimizers import OPTIMIZERS

THREADS = 2
RATE = 0.001
STEPS = 50  # per round, of each in turn


class Network(NamedTuple):
    """What is trained: a network of a model's text, on a batch of random numbers."""

    title: str
    inputs: int
    hidden: tuple[int, ...]
    outputs: int
    activation: str
    batch: int

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


NETWORKS = (
    Network("1-10-10-1 tanh, batch 32", 1, (10, 10), 1, "tanh", 32),
    Network("64-256-256-10 relu softmax, batch 256", 64, (256, 256), 10, "relu", 256),
)
TORCH_OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


def batch_of(network: Network) -> tuple[Any, Any]:
    """Inputs of shape (rows, inputs), and targets."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(network.batch, network.inputs))
    y = np.arange(network.batch) % network.outputs if network.tells_classes else generator.normal(size=network.batch)
    return x, y


def with_autodiff(network: Network, optimizer: str) -> Callable[[], None]:
    """A step by autodiff."""
    x, y = batch_of(network)
    columns = {f"x{k}": x[:, k] for k in range(network.inputs)}
    objective = ad.Objective(network.text, {**columns, "y": y})
    state, run = State.begun(objective.start, OPTIMIZERS[optimizer]), objective.epochs(OPTIMIZERS[optimizer])
    generator = np.random.default_rng(0)

    def step() -> None:
        run(state, RATE, network.batch, generator)

    return step


def with_torch(network: Network, optimizer: str) -> Callable[[], None]:
    """A step by PyTorch."""
    x, y = (torch.from_numpy(values) for values in batch_of(network))
    layers: list[torch.nn.Module] = []
    widths = (network.inputs, *network.hidden, network.outputs)
    for width, following in pairwise(widths):
        layers += [torch.nn.Linear(width, following), ACTIVATIONS[network.activation]()]
    model = torch.nn.Sequential(*layers[:-1])
    loss_of = torch.nn.CrossEntropyLoss() if network.tells_classes else torch.nn.MSELoss()
    target = y if network.tells_classes else y[:, None]
    rule = TORCH_OPTIMIZERS[optimizer](model.parameters(), lr=RATE)

    def step() -> None:
        rule.zero_grad()
        loss_of(model(x), target).backward()
        rule.step()

    return step


def measured(step: Callable[[], None]) -> float:
    """Seconds that a step takes, over a few of them."""
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main(rounds: int = 9) -> None:
    """Train every network with both, `rounds` times in turn."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(THREADS)
    print(f"{'microseconds per step':<52}  {'autodiff':>9}  {'torch':>9}  {'ratio':>6}")
    for network in NETWORKS:
        for optimizer in TORCH_OPTIMIZERS:
            ours, theirs = with_autodiff(network, optimizer), with_torch(network, optimizer)
            pairs = [(measured(ours), measured(theirs)) for _ in range(rounds + 1)][1:]  # the first warms up
            a, b = (min(side) * 1e6 for side in zip(*pairs, strict=True))
            print(f"{f'{network.title}, {optimizer}':<52}  {a:>9.0f}  {b:>9.0f}  {a / b:>6.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
