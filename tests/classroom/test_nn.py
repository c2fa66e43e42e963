"""Networks of `Value`s."""

from __future__ import annotations

import random

import pytest

from autodiff_cli.nn import MLP, Layer, Neuron, Value


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(1337)


def test_shapes_and_parameters() -> None:
    assert len(Neuron(3).parameters()) == 4
    assert len(Layer(3, 4).parameters()) == 16
    assert len(MLP(3, [4, 4, 1]).parameters()) == 41
    assert isinstance(Layer(2, 1)([1.0, 2.0]), Value)
    assert len(Layer(2, 3)([1.0, 2.0])) == 3


def test_hidden_layers_have_relu_and_the_last_is_linear() -> None:
    network = MLP(2, [3, 1])
    assert [neuron.nonlin for layer in network.layers for neuron in layer.neurons] == [True, True, True, False]
    assert repr(network) == (
        "MLP of [Layer of [ReLUNeuron(2), ReLUNeuron(2), ReLUNeuron(2)], Layer of [LinearNeuron(3)]]"
    )


def test_a_neuron_computes_its_weighted_sum() -> None:
    neuron = Neuron(2, nonlin=False)
    w1, w2 = (weight.data for weight in neuron.w)
    assert neuron([2.0, 3.0]).data == pytest.approx(2 * w1 + 3 * w2)


def test_the_wrong_number_of_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        Neuron(3)([1.0, 2.0])


def test_zero_grad_and_the_gradient_of_a_whole_network() -> None:
    network = MLP(2, [4, 1])
    output = network([0.5, -1.5])
    output.backward()
    first = [p.grad for p in network.parameters()]
    assert any(first)
    network.zero_grad()
    assert not any(p.grad for p in network.parameters())
    network([0.5, -1.5]).backward()
    assert [p.grad for p in network.parameters()] == first


@pytest.mark.slow
def test_training_separates_four_points() -> None:
    """The course's own example: three inputs, two hidden layers of four, targets 1 and -1."""
    xs = [[2.0, 3.0, -1.0], [3.0, -1.0, 0.5], [0.5, 1.0, 1.0], [1.0, 1.0, -1.0]]
    ys = [1.0, -1.0, -1.0, 1.0]
    network = MLP(3, [8, 8, 1])
    for _ in range(200):
        loss = Value(0.0)
        for x, y in zip(xs, ys, strict=True):
            loss = loss + (network(x) - y) ** 2
        network.zero_grad()
        loss.backward()
        for p in network.parameters():
            p.data -= 0.01 * p.grad
    assert loss.data < 0.05


def test_weights_start_between_minus_1_and_1() -> None:
    weights = [weight.data for weight in MLP(20, [30, 5]).parameters() if weight.data]
    assert len(weights) == 20 * 30 + 30 * 5
    assert -1 <= min(weights) < -0.9
    assert 0.9 < max(weights) <= 1
