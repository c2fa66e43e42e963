"""Draws from the posterior of a fit by the No-U-Turn sampler of nutpie, with summaries and diagnostics by ArviZ.

The density is a graph, compiled as the loss of a fit is. Bounded parameters are functions of numbers without bounds,
whose Jacobian is part of the graph. The sampler moves in units of Laplace's approximation, so that parameters of
different magnitudes and strong correlations cost nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import sys
import types
import warnings
from collections.abc import Callable, Collection, Mapping
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.backends.protocol import DensityFunction, available_cores
from autodiff_cli.backends.reductions import eigh
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.table import csv_text
from autodiff_cli.graph.node import ZERO, Node, as_node, variable
from autodiff_cli.graph.tape import leaf_names, substitute, topological_order
from autodiff_cli.language.errors import format_names, pluralize
from autodiff_cli.language.names import TextMatch
from autodiff_cli.ops.arithmetic import add
from autodiff_cli.ops.functions import LOG_DENSITIES, exp, log, sigmoid, softplus
from autodiff_cli.ops.structural import index, sum_
from autodiff_cli.options import OptionError
from autodiff_cli.system import open_atomic_bytes, open_atomic_text
from autodiff_cli.training.checkpoint import EvaluationLog
from autodiff_cli.training.fitting.inference import DerivedQuantities
from autodiff_cli.training.fitting.minimization import MINIMIZATION, format_starts, minimize_batch, root_mean_square
from autodiff_cli.training.losses import PRIOR_FACTOR, LossKind, parse_priors, prior_graph
from autodiff_cli.training.methods.gradient_descent import StoppingRule
from autodiff_cli.training.objective.batch import BATCH, ObjectiveBatch, repeat_objective
from autodiff_cli.training.objective.model import level_parameter
from autodiff_cli.training.objective.objective import Objective, copy_with
from autodiff_cli.training.objective.parameters import Bounds, ParameterLayout, list_parts
from autodiff_cli.training.objective.preparation import check_likelihood, hyperparameters
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.goodness import MAX_RHAT, ParameterPosterior
from autodiff_cli.training.result.prediction import RESIDUAL_SIGMAS, residual_sigma_name
from autodiff_cli.training.result.row_figures import DISTRIBUTIONS, row_likelihoods
from autodiff_cli.training.rows import WEIGHT, MemoryRows

_NOT_INSTALLED = "posterior needs nutpie and arviz-stats, which are not installed: pip install '.[bayes]' in a checkout"
_MIN_ESS_PER_CHAIN = 100  # Vehtari et al. 2021, Bayesian Analysis 16, 667
_TUNING_DRAWS = 400  # draws of each chain before those that count
_HIERARCHICAL_TUNING_DRAWS = 1000  # the sampler itself finds the scales of the parameters
_HIERARCHICAL_ACCEPTANCE = 0.95  # steps short enough for the narrow part of hierarchical posteriors
_LEAST_SPREAD = 3.0  # squared distance of levels, in units of their errors, from which they are sampled directly
_DIFFERENCE = 1e-4  # step of differences of gradients, relative to the parameters
_MAX_EPOCHS = 200  # epochs of the search for the mode in numbers without bounds
_FAR = 10.0  # standard deviations of Laplace's approximation, at which a normal log-density has fallen by 50
_LEAST_FALL = 0.5  # decrease of the log-density at `_FAR`; it is 4 for Student's t with one degree of freedom
_ADVICE = 'give it a prior, such as --prior "{} ~ normal(0, 10)"'
_PROGRESS_MILLISECONDS = 50  # milliseconds between two calls of a callback
_MAX_NUMBERS = 10**9  # numbers in all draws: 8 GB
_MAX_LOO_DRAWS = 1000  # draws of each chain
_EXACT = 1e-9  # residuals, relative to the spread of the target, that are rounding errors
_UNBOUNDED = (-math.inf, math.inf)
_MODE_STARTS, _MODE_EPOCHS = 40, 60  # points from which another mode is searched, and epochs of each search
_MODE_DISTANCE = 7.0  # logarithm of the largest distance of these points, in standard deviations
_SAME_DENSITY = 1e-3  # relative difference of the rows' losses at modes that are one solution written differently
_REACH = 2.0  # standard deviations that draws around a mode are farther from it than usual
_LEAST_SHARE = 0.05  # probability of another mode that draws may not miss
_RUNAWAY = 1e8  # size of an unbounded number that no proper posterior reaches, in those of its mode and its deviation

DrawCallback = Callable[[int, int], None]  # arguments: the number of draws so far, and in total


class PosteriorDraws(NamedTuple):
    """Draws from a posterior.

    Attributes:
        draws: the draws by name, of shape (chains, draws, …).
        summaries: the summary of each number by its name.
        divergences: the number of transitions that diverged.
        warnings: sentences on problems that the diagnostics found.
        is_complete: whether all draws were made.
        is_representative: whether the chains agree, and miss no other mode of the posterior.
    """

    draws: dict[str, Array]
    summaries: dict[str, ParameterPosterior]
    divergences: int
    warnings: list[str]
    is_complete: bool
    is_representative: bool


def check_posterior(objective: Objective, options: FitOptions) -> None:
    """Raise OptionError if a posterior cannot be drawn from: an extra that is not installed, or no likelihood."""
    has_open_scale = objective.is_scale_estimated
    check_likelihood("posterior", objective.loss, objective.family, objective.is_likelihood, has_open_scale)
    bounds = objective.bounds
    upper = [each.position for each in objective.constraints.solved(objective.start, bounds)]
    if objective.shares or np.isfinite((bounds.low[upper], bounds.high[upper])).any():
        raise OptionError("posterior: shares of a mixture, and ordered parameters with other bounds, cannot be drawn")
    if hyperparameters(objective.priors) and not isinstance(objective.data, MemoryRows):
        raise OptionError("posterior: with hierarchical priors, rows must be in memory: remove stream")
    if hyperparameters(objective.priors) and options.starts:
        raise OptionError("posterior: with hierarchical priors, chains start at one fit: remove starts")
    if objective.is_penalised and not objective.has_priors:
        raise OptionError("posterior cannot be combined with a penalty: write l1 or l2 as a prior")
    if objective.is_network or objective.classes is not None:
        raise OptionError("posterior: individual weights of networks and classifiers are not identifiable")
    _check_deviations(objective)
    _libraries()


def _check_deviations(objective: Objective) -> None:
    """Raise OptionError if a standard deviation of levels has no prior, and there are too few levels to estimate it.

    For large s, the posterior of a standard deviation s falls as s^-k, where k is the number of its levels minus the
    number of their means without a prior. It is proper from k = 2 on: Gelman 2006, Bayesian Analysis 1, 515.
    """
    priors, layout = objective.priors, objective.layout
    flat, in_model = {*layout.names} - priors.keys(), {*leaf_names([objective.model.program.output])}
    for deviation in sorted(flat):
        levels = [name for name, each in priors.items() if each.argument("sigma") == deviation]
        means = {mean for name in levels for mean in priors[name].parameters} & flat - in_model - {deviation}
        count = sum(math.prod(layout.shapes[name]) for name in levels)
        if levels and count - len(means) < 2 and np.isinf(objective.bounds.high[layout.slices[deviation]]).all():
            raise OptionError(
                f"the posterior is improper: {pluralize(count, 'level')} cannot determine the deviation `{deviation}`; "
                f'give it a prior, such as --prior "{deviation} ~ half_normal(1)"'
            )


class _Libraries(NamedTuple):
    nutpie: Any
    array_stats: Any


@functools.cache
def _libraries() -> _Libraries:
    """Return the compiled part of nutpie, and ArviZ's functions on arrays.

    The rest of both imports pandas, xarray and most of SciPy, which takes longer than many a sampling.
    """
    package, loaded = types.ModuleType("nutpie"), {*sys.modules}
    try:
        package.__path__ = getattr(importlib.util.find_spec("nutpie"), "submodule_search_locations", None) or []
        sampler = _import_beside("nutpie._lib", {"nutpie": package})
        statistics = _import_beside("arviz_stats.base", {"xarray": None, **_stand_ins()})
    except ImportError:
        raise OptionError(_NOT_INSTALLED) from None
    for name in sys.modules.keys() - loaded:  # other users of ArviZ import it whole
        if name.partition(".")[0] == "arviz_stats":
            del sys.modules[name]
    return _Libraries(sampler, statistics.array_stats)


def _stand_ins() -> dict[str, Any]:
    """Return small substitutes for the modules from which ArviZ's diagnostics use only ranks and normal quantiles."""
    from scipy.special import ndtri

    def rankdata(values: Array, **_options: str) -> Array:
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[places].reshape(values.shape)

    contents: dict[str, dict[str, Any]] = {
        "scipy.stats": {"rankdata": rankdata, "norm": types.SimpleNamespace(ppf=ndtri), "circmean": None},
        "scipy.interpolate": {"CubicSpline": None},
        "arviz_stats.base.density": {"_DensityBase": type("_DensityBase", (), {})},
    }
    modules = {name: types.ModuleType(name) for name in contents}
    for name, module in modules.items():
        vars(module).update(contents[name])
    return modules


def _import_beside(name: str, replacements: Mapping[str, Any]) -> Any:
    """Import a module while others are replaced; None stands for one that is not installed."""
    originals = {other: sys.modules.get(other) for other in replacements}
    sys.modules |= replacements
    try:
        return importlib.import_module(name)
    finally:
        for other, original in originals.items():
            del sys.modules[other]
            if original is not None:
                sys.modules[other] = original


def draw_posterior(
    objective: Objective,
    start: Array,
    options: FitOptions,
    quantities: DerivedQuantities,
    log: EvaluationLog | None,
    on_draw: DrawCallback,
) -> PosteriorDraws:
    """Draw from the posterior of an objective.

    Args:
        start: a point near the mode.
        options: the number of draws and of chains, the seed and the priors.
        quantities: derived quantities, of which draws are computed too.
        log: remembers evaluations of the density. With the log of an earlier run, the chains continue where they ended.
        on_draw: is called from time to time.
    """
    ordered = objective.constraints.solved(start, objective.bounds)
    slack = objective.with_slacks(start) if ordered else objective
    problem = slack, slack.start if ordered else start, options
    density = Density(*problem, Density(*problem).find_similar_levels() if hyperparameters(objective.priors) else ())
    density.log = log
    draws, chains = options.posterior or 0, options.chains
    tuning = _HIERARCHICAL_TUNING_DRAWS if density.is_hierarchical else _TUNING_DRAWS
    total, failures = chains * (draws + tuning), list[Exception]()
    if total * density.size > _MAX_NUMBERS:
        raise OptionError(f"posterior: {total * density.size} numbers do not fit into memory: draw fewer")

    def report(count: int) -> None:
        if not failures:
            try:
                on_draw(count, total)
            except Exception as error:  # raised below: a callback that raises brings the whole sampler down
                failures.append(error)

    cores = min(chains, options.threads or available_cores())
    settings = _libraries().nutpie.PyNutsSettings.Diag(options.seed % 2**64)
    settings.num_draws, settings.num_tune, settings.num_chains = draws, tuning, chains
    if density.is_hierarchical:
        settings.target_accept = _HIERARCHICAL_ACCEPTANCE
    else:
        density.check_is_proper()
    sampler = _start_sampler(density, settings, cores, report)
    try:
        sampler.wait(None)
    except KeyboardInterrupt:
        sampler.abort()
    except RuntimeError as error:
        reason = " ".join(str(error).partition("Stack")[0].split())
        raise OptionError(f"posterior: the sampler stopped: {reason}") from None
    if failures:
        raise failures[0]
    trace = sampler.take_results().get_arrow_trace()
    batches = [_chain_draws(density.size, *each) for each in zip(*trace, strict=True)]
    # After an interruption, chains differ in length: the longest ones are used that have most draws in common.
    batches.sort(key=lambda chain: -len(chain[0]))
    lengths = [len(z) for z, _ in batches] or [0]
    number = max(range(len(lengths)), key=lambda k: (k + 1) * lengths[k])
    if (count := lengths[number]) < 2:
        raise KeyboardInterrupt  # before anything was drawn
    z, is_diverging = (np.array([part[:count] for part in parts[: number + 1]]) for parts in zip(*batches, strict=True))
    density.check_runaways(z)
    point, used = density.parameters(z), len(z)
    for each in ordered:  # the larger one was drawn as its distance from the smaller one
        larger, smaller = (objective.layout.names[k] for k in (each.position, each.others[0]))
        point[larger] = point[larger] + point[smaller]
    values = {name: point[name] for name in density.names}
    derived = quantities.batch_values({**point, **objective.fixed})
    values |= {name: np.broadcast_to(each, (used, count)) for name, each in derived.items()}  # some are constant
    divergences, summaries = int(np.count_nonzero(is_diverging)), summarize_draws(values)
    warnings = _diagnose(summaries, divergences, used, count)
    mode, share = (z, 0.0) if density.is_hierarchical or ordered else density.find_missed_mode(z, options.seed)
    if is_missing := share > _LEAST_SHARE:
        other = density.parameters(mode[None, None])
        there = format_starts(objective, objective.layout.flatten([other[name][0, 0] for name in objective.parameters]))
        warnings.append(
            f"no chain visited another mode of the posterior, with about {share:.0%} of the probability: compare with "
            f"the draws from {there}, or exclude a mode by bounds or priors"
        )
    is_complete = used == chains and count == draws
    if not is_complete:
        warnings.append(f"interrupted: {used} of {chains} chains are used, with {count} of {draws} draws each")
    is_representative = not is_missing and all(each.has_converged for each in summaries.values())
    return PosteriorDraws(values, summaries, divergences, warnings, is_complete, is_representative)


def _start_sampler(density: Density, settings: Any, cores: int, report: Callable[[int], None]) -> Any:
    """Return a sampler that has started. The density is in C, or in Python if its evaluations are remembered."""
    library, size = _libraries().nutpie, density.size
    lengths: dict[str, int] = {}  # lengths of axes, which nutpie fills in
    variables = library.PyVariable.new_variables(["z"], ["float64"], [(size,)], lengths, {})
    progress = library.ProgressType.template_callback(
        _PROGRESS_MILLISECONDS, "{{ total_finished_draws }}", cores, lambda text: report(int(text))
    )
    has_extra_callback = "extra_callback" in library.PySampler.from_pymc.__text_signature__  # from nutpie 0.16.9 on
    last = *((None, _PROGRESS_MILLISECONDS) if has_extra_callback else ()), library.PyStorage.arrow()

    def initial_point(seed: int) -> Array:
        return np.random.default_rng(seed).normal(0, 1, size)

    if density.compiled is None or density.log is not None:
        makers = lambda: density.value_and_gradient, lambda *_: lambda z: {"z": z}
        model = library.PyModel(*makers, variables, size, dim_sizes=lengths, coords={}, init_point_func=initial_point)
        return library.PySampler.from_pyfunc(settings, cores, model, progress, *last)
    address, copy, data = density.compiled.addresses
    functions = library.LogpFunc(address, data, density), library.ExpandFunc(size, size, copy, data, density)
    model = library.PyMcModel(*functions, variables, size, lengths, {}, initial_point, None)
    return library.PySampler.from_pymc(settings, cores, model, progress, *last)


def _chain_draws(size: int, draws: Any, statistics: Any) -> tuple[Array, Mask]:
    """Return the draws of a chain after tuning, of shape (draws, P), and which of them diverged."""
    import pyarrow as pa

    batch: Any = pa.record_batch(draws)
    figures = (pa.record_batch(statistics).column(name) for name in ("tuning", "diverging"))
    is_tuning, is_diverging = (np.asarray(each.to_numpy(zero_copy_only=False), np.bool_) for each in figures)
    z = batch.column("z").flatten().to_numpy(zero_copy_only=False).reshape(batch.num_rows, size)
    return z[~is_tuning], is_diverging[~is_tuning]


class LeaveOneOut(NamedTuple):
    """An estimate of how well a model predicts rows that it was not fitted to.

    Attributes:
        elpd: the sum over the rows of the log-density that the other rows predict for them.
        se: its standard error.
        p: the effective number of parameters.
        max_k: the largest Pareto k of a row; above 0.7 the estimate is unreliable.
    """

    elpd: float
    se: float
    p: float
    max_k: float


def leave_one_out(objective: Objective, draws: Mapping[str, Array]) -> LeaveOneOut | None:
    """Return the leave-one-out estimate of a fit by Pareto-smoothed importance sampling: Vehtari, Gelman & Gabry 2017,
    Statistics and Computing 27, 1413. None if too few draws differ.

    Args:
        draws: the draws from the posterior; at most 1,000 of each chain are used.
    """
    array_stats = _libraries().array_stats
    numbers = parameter_draws(objective, draws)
    every = -(-numbers.shape[1] // _MAX_LOO_DRAWS)
    weight = objective.column(WEIGHT) if objective.is_weighted else np.ones(1)
    theta = numbers[:, ::every]
    components, plain = objective.components, objective.without_penalty()
    with ignore_float_errors():
        losses = [plain.evaluate_rows(plain.kernels.row_loss, point)[0] for point in theta.reshape(-1, theta.shape[2])]
        densities = -components * weight * np.array(losses).reshape(*theta.shape[:2], -1)
        if objective.kind is LossKind.SQUARES:
            names = [name for name in RESIDUAL_SIGMAS if name in draws and name not in objective.layout.names]
            sigma = draws[names[0]][:, ::every, None] if names else np.ones((1, 1, 1))
            normaliser = np.log(sigma) - np.log(weight) / 2 + math.log(2 * math.pi) / 2
            densities = densities / (2 * np.square(sigma)) - components * normaliser
        elif objective.loss in DISTRIBUTIONS:  # their losses leave out terms of the target alone
            target, mean = np.split(plain.evaluate_rows(plain.kernels.target_and_prediction, theta[0, 0]), 2)
            weights = np.broadcast_to(weight, target.shape)
            rows = row_likelihoods(objective.loss, target, mean, weights, 1.0, plain.scale)
            densities = densities + rows.log_likelihood.sum(axis=0) - densities[0, 0]
        try:
            elpd, k, p = (np.asarray(each) for each in array_stats.loo(np.moveaxis(densities, 2, 0)))
        except ValueError:  # all draws in the tail of a row are the same
            return None
    return LeaveOneOut(float(elpd.sum()), math.sqrt(len(elpd) * np.var(elpd)), float(p.sum()), float(k.max()))


def save_draws(draws: Mapping[str, Array], path: str) -> None:
    """Write draws to a file, with columns `chain` and `draw` and one for each number: CSV, Parquet, or NetCDF as ArviZ
    reads it. Raises OSError.

    An underscore follows the name of a parameter that is called `chain` or `draw`.
    """
    draws = {name + "_" * (name in ("chain", "draw")): each for name, each in draws.items()}
    if path.lower().endswith(".nc"):
        with warnings.catch_warnings(action="ignore"):  # ArviZ announces its next version
            arviz: Any = importlib.import_module("arviz")
            # ArviZ 1 has groups.
            arviz.from_dict({"posterior": draws} if hasattr(arviz, "convert_to_datatree") else draws).to_netcdf(path)
        return
    names, numbers = draw_numbers(draws)
    chains, count, size = numbers.shape
    columns = {"chain": np.repeat(np.arange(chains), count), "draw": np.tile(np.arange(count), chains)}
    columns |= dict(zip(names, numbers.reshape(-1, size).T, strict=True))
    if path.lower().endswith(".parquet"):
        from pyarrow import parquet, table

        with open_atomic_bytes(path) as file:
            parquet.write_table(table(columns), file)
        return
    with open_atomic_text(path) as stream:
        stream.write(csv_text([columns, *zip(*(each.tolist() for each in columns.values()), strict=True)]))


class LevelVector(NamedTuple):
    """The values of a parameter for all levels of a column, as one array.

    Attributes:
        names: the parameters of the levels.
        leaf: the array.
        element: its element at the level of a row.
        column: the name of the column with the positions of the rows' levels.
        positions: these positions.
    """

    names: tuple[str, ...]
    leaf: Node
    element: Node
    column: str
    positions: Array


def gather_levels(objective: Objective, loss: Node) -> tuple[Node, dict[str, LevelVector]]:
    """Return the loss of a row with an element of an array in place of each sum of parameters times indicators, and
    these arrays by names such as `a[site]`.

    The rows must be in memory, and all levels of a parameter must be free, with one prior and the same bounds.
    """
    model, data, slices = objective.model, objective.data, objective.layout.slices
    vectors: dict[str, LevelVector] = {}
    if not isinstance(data, MemoryRows) or objective.orders:
        return loss, vectors
    columns, bases = data.to_table().columns, {name.partition("[")[0]: None for name in slices if name.endswith("]")}
    for column, base in product(model.levels, bases):
        names = tuple(level_parameter(base, level) for level in model.levels[column])
        matches = [str(TextMatch(column, str(level))) for level in model.levels[column]]
        if not all(name in slices and name not in model.shapes for name in names):
            continue
        places = [slices[name].start for name in names]
        ends = {*zip(objective.bounds.low[places].tolist(), objective.bounds.high[places].tolist(), strict=True)}
        if len(ends) > 1 or len({objective.priors.get(name) for name in names}) > 1:
            continue
        name, positions = level_parameter(base, column), f"levels of {column}"
        leaf, terms = variable(name), [*zip(names, matches, strict=True)]
        element = index(leaf, variable(positions))
        sums = [node for node in topological_order([loss]) if node.op is add]
        sums = [k for k in sums if terms == [tuple(x.text for x in p.inputs) for p in reversed(list_parts(k, (add,)))]]
        (gathered,) = substitute([loss], dict.fromkeys(sums, element))
        elsewhere = leaf_names([gathered, *(node for prior in objective.priors.values() for node in prior.arguments)])
        if sums and {*names}.isdisjoint(elsewhere):
            loss = gathered
            codes = np.argmax([columns[match] for match in matches], axis=0).astype(np.float64)
            vectors[name] = LevelVector(names, leaf, element, positions, codes)
    return loss, vectors


class Density:
    """The posterior density of an objective, in numbers without bounds.

    Attributes:
        names: the parameters, with the standard deviation of the residuals if it is unknown.
        size: the number of values.
        is_hierarchical: whether parameters have priors of other parameters.
        log: remembers evaluations if it is set.
        compiled: the log-density in compiled code, if that is available.
    """

    log: EvaluationLog | None = None
    compiled: DensityFunction | None = None

    def __init__(self, objective: Objective, start: Array, options: FitOptions, similar: Collection[str] = ()) -> None:
        graphs, program = objective.kernels.graphs, objective.model.program
        layout, shapes, priors = objective.layout, dict(objective.model.shapes), dict(objective.priors)
        self.is_hierarchical = bool(hyperparameters(priors))
        self.names, leaves = [*layout.names], {name: program.leaves[name] for name in layout.names}
        row, self._vectors = gather_levels(objective, graphs.loss * objective.components)
        values = {name: np.asarray(value) for name, value in layout.views(start).items()}
        bounds = {
            name: (float(objective.bounds.low[place].max()), float(objective.bounds.high[place].min()))
            for name, place in layout.slices.items()
        }
        for name, vector in self._vectors.items():
            first = vector.names[0]
            shapes[name], bounds[name] = (len(vector.names),), bounds[first]
            values[name] = np.array([values[each] for each in vector.names])
            if first in priors:
                priors = {k: prior for k, prior in priors.items() if k not in vector.names} | {name: priors[first]}
            leaves = {each: leaf for each, leaf in leaves.items() if each not in vector.names} | {name: vector.leaf}
        extra = prior_graph(priors, leaves, shapes) if self._vectors else graphs.prior
        row = row / 2 if objective.kind is LossKind.SQUARES else row
        self._targets = 0  # whose residuals have an unknown standard deviation
        if objective.has_unknown_variance:
            sigma_name = residual_sigma_name(objective.model)
            count = self._targets = objective.target_count
            spread = math.sqrt(objective.target_variation() / max(count - 1, 1)) or 1.0
            leaf = leaves[sigma_name] = variable(sigma_name)
            own_prior = objective.sigma_prior or parse_priors({"sigma": f"half_normal({spread!r})"})["sigma"]
            if not own_prior.support[1] > 0:
                raise OptionError(f"the prior of `sigma`, {own_prior.text}: no number above 0 has a density above 0")
            row = row / (leaf * leaf)
            extra = extra + count * log(leaf) + prior_graph({sigma_name: own_prior}, leaves, {})
            self.names.append(sigma_name)
            if (scatter := root_mean_square(objective, start)) < _EXACT * spread:
                raise OptionError("posterior: the model fits the rows exactly, so the residuals have no scatter")
            values[sigma_name] = np.asarray(min(scatter, spread))
            bounds[sigma_name] = max(own_prior.support[0], 0.0), own_prior.support[1]
        near = {k: p for k, p in priors.items() if p.parameters and p.distribution is LOG_DENSITIES["normal"]}
        free = [name for name in near if bounds[name] == _UNBOUNDED and {*near}.isdisjoint(near[name].parameters)]
        arguments = {name: near[name].arguments_in(leaves) for name in free}
        jacobian, replaced = as_node(0), dict[Node, Node]()
        for name, leaf in sorted(leaves.items(), key=lambda pair: pair[0] in similar):  # hyperparameters first
            term: Node = ZERO
            for each in (self._vectors[name].element, leaf) if name in self._vectors else (leaf,):
                if name in similar:
                    mean, deviation = substitute(arguments[name], replaced)
                    replaced[each], term = mean + deviation * each, log(deviation)
                elif bounds[name] != _UNBOUNDED:
                    replaced[each], term = _constrained(each, *bounds[name])
            size = math.prod(shapes.get(name, ()))
            jacobian = jacobian + (sum_(term) if leaf in topological_order([term]) and name in shapes else size * term)
        groups = {prior: [name for name in arguments if priors[name] == prior] for prior in map(priors.get, arguments)}
        self._groups = [(names, substitute(arguments[names[0]], replaced)[1]) for names in groups.values()]
        self._transforms = [replaced.get(leaf, leaf) for leaf in leaves.values()]
        weighted = variable(WEIGHT) * row if graphs.has_weight else row
        loss = substitute([weighted + extra / objective.rows], replaced)[0] - jacobian / objective.rows
        self._layout = ParameterLayout([*leaves], shapes)
        self.size = self._layout.size
        codes = {vector.column: vector.positions for vector in self._vectors.values()}
        self._shapes = {**graphs.leaf_shapes, **{name: shapes[name] for name in self._vectors}}
        density = dataclasses.replace(graphs, loss=loss, weighted_loss=loss, prior=ZERO, leaf_shapes=self._shapes)
        columns = {*objective.kernels.columns, *codes}
        kernels = dataclasses.replace(objective.kernels, graphs=density, columns=columns, parameters=[*leaves.values()])
        self._kernel = kernels.compiled(options.threads).loss_and_gradient
        rows = objective.data
        if isinstance(rows, MemoryRows):
            rows = MemoryRows(dataclasses.replace(rows.to_table(), columns={**rows.to_table().columns, **codes}))
        self._objective = copy_with(
            objective.with_rows(rows),
            kernels=kernels,
            layout=self._layout,
            bounds=Bounds.unbounded(self.size),
            loss="",
            is_scale_estimated=False,
            settings={**objective.settings, PRIOR_FACTOR: 0.0},
        )
        self._centre = self._layout.flatten(
            [np.zeros(()) if name in similar else _unconstrained(values[name], *bounds[name]) for name in leaves]
        )
        self._factor = np.eye(self.size)
        if not self.is_hierarchical:
            self._move_to_mode()
        if isinstance(rows, MemoryRows):
            point, columns_read = self._objective.point(self._centre), rows.to_table().columns
            self.compiled = self._kernel.density(point, columns_read, rows.rows, self._layout.slices, self._factor)

    @ignore_float_errors()
    def find_similar_levels(self) -> list[str]:
        """Return the parameters to sample as mean + deviation·z, because their levels differ little.

        If levels differ little compared with their errors, their posterior is close to their prior, and narrow where
        the deviation is small.

        The levels start at their means. There g²/h is 1 on average if levels do not differ (a score test), where g is
        the slope and h the curvature of minus the log-likelihood with respect to a level. The scatter of rows around
        the means is used for their scatter around the levels, which the factor of an F test corrects.
        """
        similar, point = [], self._objective.point(self._centre)
        for names, deviation in self._groups:
            places = np.concatenate([np.arange(self.size)[self._layout.slices[name]] for name in names])
            step = np.zeros(self.size)
            step[places] = _DIFFERENCE * max(1e-3, np.abs(self._centre[places]).max())
            slopes, ahead = (-self.value_and_gradient(z)[1][places] for z in (0 * step, step))
            (prior_deviation,) = evaluate([deviation], point, self._shapes)
            curvatures = (ahead - slopes) / step[places] - 1 / prior_deviation**2
            spread, count = float(np.mean(np.where(curvatures > 0, slopes**2 / curvatures, 0))), len(places)
            if self._targets:
                spread *= max(self._targets - count, 0) / max(self._targets - count * spread, _EXACT)
            if not spread > _LEAST_SPREAD:
                similar += names
        return similar

    def _by_parameter(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return values by name, with one value for each level in place of each array over levels."""
        named = dict(values)
        for name, vector in self._vectors.items():
            named |= {each: named[name][..., k] for k, each in enumerate(vector.names)}
        return named

    def _move_to_mode(self) -> None:
        """Let the sampler move around the mode, in units of Laplace's approximation."""
        batch = ObjectiveBatch([self._objective])
        with ignore_float_errors():
            (outcome,) = minimize_batch("lbfgs", batch, self._centre[None], stop=StoppingRule(_MAX_EPOCHS))
            factor = self._laplace_factor(outcome.theta)
        if outcome.divergence is None and factor is not None:
            self._centre, self._factor = outcome.theta, factor

    def _laplace_factor(self, theta: Array) -> Array | None:
        """Return a factor F of the covariance F·Fᵀ of Laplace's approximation at a point; None if there is none."""
        hessian = self._objective.hessian(theta)
        scale = np.sqrt(np.abs(np.diag(hessian)))
        if not (np.isfinite(hessian).all() and (scale > 0).all()):
            return None
        curvatures, directions = eigh(hessian / np.outer(scale, scale))
        return np.asarray(directions / np.sqrt(np.maximum(curvatures, 1e-10 * curvatures.max())) / scale[:, None])

    @ignore_float_errors()
    def find_missed_mode(self, z: Array, seed: int) -> tuple[Array, float]:
        """Return another mode that no draw is near, in numbers of the sampler, and its share of the probability of the
        two modes by Laplace's approximation; a share of 0 if none is found. A mode at which the density of every row is
        the same is the same solution, written differently.

        Chains start at one mode. If another one is far, all of them stay, and R-hat cannot tell.

        Args:
            z: the draws, of shape (chains, draws, P).
        """
        objective, size, share, mode = self._objective, self.size, 0.0, np.asarray(np.zeros(self.size))
        count, generator = max(1, min(_MODE_STARTS, BATCH.rows // objective.rows)), np.random.default_rng(seed)
        places = generator.normal(size=(count, size)) * np.exp(generator.uniform(0, _MODE_DISTANCE, (count, size)))
        starts, stop = self._centre + places @ self._factor.T, StoppingRule(_MODE_EPOCHS)
        ends = minimize_batch("lbfgs", repeat_objective(objective, count), starts, stop=stop)
        highest, row_loss = self.value_and_gradient(mode)[0], objective.kernels.row_loss
        rows = objective.evaluate_rows(row_loss, self._centre)
        for theta in (end.theta for end in ends if end.converged):
            place = np.asarray(np.linalg.solve(self._factor, theta - self._centre), np.float64)
            factor = self._laplace_factor(theta)
            height = self.value_and_gradient(place)[0]
            if factor is None or not height > highest - MINIMIZATION.exclusion:
                continue
            others, axes = objective.evaluate_rows(row_loss, theta), np.linalg.solve(self._factor, factor)
            beside = max(self.value_and_gradient(each)[0] for each in (*(place + 2 * axes.T), *(place - 2 * axes.T)))
            distance = np.linalg.norm(np.linalg.solve(axes, (z.reshape(-1, size) - place).T), axis=0).min()
            is_same = np.ptp(others) > 0 and np.allclose(others, rows, _SAME_DENSITY, 0)
            if not is_same and height - beside > _LEAST_FALL and distance > math.sqrt(size) + _REACH:
                odds = np.exp(height - highest + np.linalg.slogdet(axes)[1])
                mode, share = max((mode, share), (place, float(1 - 1 / (1 + odds))), key=itemgetter(1))
        return mode, share

    def check_is_proper(self) -> None:
        """Raise OptionError if the density hardly falls on a long way from the mode, in units of Laplace's
        approximation: the posterior is then improper.
        """
        with ignore_float_errors():
            highest = self.value_and_gradient(np.zeros(self.size))[0]
            for direction in (*np.eye(self.size), *-np.eye(self.size)):
                farther = (_FAR * direction, 2.5 * _FAR * direction)  # another mode may be at one of them
                if highest - min(self.value_and_gradient(z)[0] for z in farther) < _LEAST_FALL:
                    largest = np.abs(self._factor @ direction)
                    sizes = self._by_parameter(self._layout.views(largest))
                    name = next(name for name in self.names if np.max(sizes[name]) == largest.max())
                    raise OptionError(
                        f"the posterior is improper: its density does not fall with `{name}`; {_ADVICE.format(name)}"
                    )

    @ignore_float_errors()
    def value_and_gradient(self, z: Array) -> tuple[float, Array]:
        """Return the log-density, up to a constant, and its gradient."""
        compute = self.compiled or self._evaluate
        result = compute(z) if self.log is None else self.log.evaluate(z.tobytes(), lambda: compute(z))
        return float(result[0]), result[1:]

    def _evaluate(self, z: Array) -> Array:
        sums = self._objective.sum_rows(self._kernel, self._centre + self._factor @ z)
        return -np.append(sums[:1], sums[1:] @ self._factor)

    @ignore_float_errors()
    def parameters(self, z: Array) -> dict[str, Array]:
        """Return the parameters by name for numbers of the sampler, of shape (chains, draws, P)."""
        u = self._centre + z @ self._factor.T
        point: dict[str, Any] = {**self._objective.fixed}
        for name, shape in self._layout.shapes.items():
            point[name] = u[..., self._layout.slices[name]].reshape(*u.shape[:2], *shape)
        transformed = evaluate(self._transforms, point, self._shapes)
        values = self._by_parameter(dict(zip(self._layout.names, transformed, strict=True)))
        return {name: values[name] for name in self.names}

    @ignore_float_errors()
    def check_runaways(self, z: Array) -> None:
        """Raise OptionError if chains run to infinity, as for an improper posterior: their means are meaningless."""
        limits = _RUNAWAY * (np.abs(self._centre) + np.linalg.norm(self._factor, axis=1))
        is_near = (np.abs(self._centre + z @ self._factor.T) <= limits).all(axis=(0, 1))
        near = self._by_parameter(self._layout.views(is_near))
        if far := [name for name in self.names if not np.all(near[name])]:
            listed = format_names(far, "`")
            raise OptionError(f"the posterior seems improper: chains of {listed} run away; {_ADVICE.format(far[0])}")


def _constrained(leaf: Node, low: float, high: float) -> tuple[Node, Node]:
    """Return a number between two ends, of which one is finite, as a function of a number without bounds, and the
    logarithm of its derivative.
    """
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * sigmoid(leaf), math.log(high - low) - softplus(leaf) - softplus(-leaf)
    return low + exp(leaf) if math.isfinite(low) else high - exp(leaf), leaf


@ignore_float_errors()
def _unconstrained(value: Array, low: float, high: float) -> Array:
    """Return the number without bounds for a number between two ends: the inverse of `_constrained`."""
    if (low, high) == _UNBOUNDED:
        return value
    if math.isfinite(low) and math.isfinite(high):
        share = np.clip((value - low) / (high - low), 1e-3, 1 - 1e-3)
        return np.asarray(np.log(share) - np.log1p(-share))
    end, distance = (low, value - low) if math.isfinite(low) else (high, high - value)
    return np.asarray(np.log(np.maximum(distance, 1e-6 * max(1.0, abs(end)))))


def draw_numbers(draws: Mapping[str, Array]) -> tuple[tuple[str, ...], Array]:
    """Return the names of the single numbers of draws, and the draws of each, of shape (chains, draws, numbers)."""
    layout = ParameterLayout([*draws], {name: values.shape[2:] for name, values in draws.items()})
    return layout.element_names, np.concatenate([each.reshape(*each.shape[:2], -1) for each in draws.values()], axis=2)


def parameter_draws(objective: Objective, draws: Mapping[str, Array]) -> Array:
    """Return the draws of the parameters of an objective, of shape (chains, draws, P)."""
    return draw_numbers({name: draws[name] for name in objective.layout.names})[1]


def summarize_draws(draws: Mapping[str, Array]) -> dict[str, ParameterPosterior]:
    """Return the summary of each number of draws of shape (chains, draws, …), by its name.

    R-hat compares the chains, or the quarters of a single chain. It is 1 for a number that alone is constant.
    """
    array_stats = _libraries().array_stats
    names, numbers = draw_numbers(draws)
    chains, flat = np.moveaxis(numbers, 2, 0), numbers.reshape(-1, len(names)).T
    even, is_constant = chains.shape[2] // 2 * 2, np.ptp(flat, axis=1) == 0
    parts = chains if chains.shape[1] > 1 else chains[..., :even].reshape(len(chains), 2, -1)
    with ignore_float_errors():
        bulk, tail = array_stats.ess(chains, method="bulk"), array_stats.ess(chains, method="tail", prob=0.9)
        rhat = np.where(is_constant & ~is_constant.all(), 1, array_stats.rhat(parts))
        columns = [flat.mean(axis=1), flat.std(axis=1, ddof=1), *np.quantile(flat, (0.05, 0.5, 0.95), axis=1)]
    table = np.array([*columns, bulk, tail, rhat]).T.tolist()
    return {name: ParameterPosterior(*row) for name, row in zip(names, table, strict=True)}


def _diagnose(summaries: dict[str, ParameterPosterior], divergences: int, chains: int, draws: int) -> list[str]:
    """Return a sentence for each diagnostic that says that draws may not represent the posterior."""
    sentences = []
    if divergences:
        sentences.append(
            f"{pluralize(divergences, 'transition')} of {chains * draws} diverged, so the draws may miss a part of the "
            "posterior: write the model in parameters that are less dependent, or give narrower priors"
        )
    apart = [name for name, each in summaries.items() if not each.has_converged]
    if any(math.isnan(summaries[name].rhat) for name in apart):
        sentences.append(f"{pluralize(draws, 'draw')} per chain are too few to tell if the chains agree: draw more")
    elif apart:
        worst, listed = max(summaries[name].rhat for name in apart), format_names(apart, "`")
        sentences.append(
            f"the {'chains' if chains > 1 else 'quarters of the chain'} disagree: R-hat of {listed} is up to "
            f"{worst:.4g}, above {MAX_RHAT}; draw more, or give priors to parameters that the data do not determine"
        )
    least = _MIN_ESS_PER_CHAIN * chains
    few = [name for name, each in summaries.items() if not each.ess_bulk >= least <= each.ess_tail]
    if few and not apart:
        listed = format_names(few, "`")
        sentences.append(f"the effective sample size of {listed} is below {least}: draw more than {draws} per chain")
    return sentences
