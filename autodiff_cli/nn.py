"""Neural networks of `Value`s, neuron by neuron, as courses build them: `Neuron`, `Layer`, `MLP`."""

from autodiff_cli.classroom.nn import MLP, Layer, Neuron

__all__ = ["MLP", "Layer", "Neuron"]
