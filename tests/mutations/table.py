"""Mutations of the program, and the tests that must notice them: signs, bounds, masks, predicates, order, escaping.

Each replaces a piece of a file, which must occur there exactly once, by something nearly as plausible.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """A change of one place in the program.

    Attributes:
        file: the path of the file from the root of the checkout.
        old, new: the text, and its replacement.
        tests: arguments for pytest: files that reach the place, and a selection of their tests.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _evaluators(choice: str) -> tuple[str, ...]:
    return "tests/ops/test_rules.py", "tests/ops/test_predicates.py", "-k", choice


OUTSIDE = ("tests/ops/test_rules.py", "-k", "outside_the_domain")
PREDICATES = ("tests/ops/test_predicates.py",)
ZEROS = ("tests/autodiff/test_structural_zeros.py", "tests/autodiff/test_conventions.py")
LOOPS = ("tests/autodiff/test_programs.py", "tests/autodiff/test_structural_zeros.py", "tests/autodiff/test_depth.py")
EPOCHS = ("tests/backends/llvm/test_epochs.py", "tests/backends/test_descent.py")
TOTALS = ("tests/backends/test_totals.py",)
INLINE, DIVISION = (("tests/backends/llvm/test_inline.py",), ("tests/backends/llvm/test_division.py",))
OPTIMIZERS = ("tests/training/methods/test_optimizers.py",)
FITS = ("tests/training/test_fit.py",)
WRITING = ("tests/data/test_writing.py",)
POINTS = ("tests/formula/test_points.py", "tests/cli/commands/test_grad_points.py")
MODELS = ("tests/training/result/test_model_file.py",)
STATUSES = ("tests/cli/test_main.py", "tests/cli/test_options.py")
PAGE = ("tests/fuzz/test_fuzz.py", "tests/browser/test_evaluator.py", "-k", "pages or evaluat or operation or arrays")
DIGITS = ("tests/explain/accuracy/test_correct_digits.py", "tests/numbers/test_balls.py")
ARRAY_DIGITS = ("tests/explain/accuracy/test_array_digits.py",)
ACTIVATIONS = "autodiff_cli/numbers/float_functions.py"
ELEMENTARY, ARITHMETIC = (f"autodiff_cli/ops/{name}.py" for name in ("elementary", "arithmetic"))
REVERSE = FORWARD = "autodiff_cli/autodiff/sweeps.py"
METHODS = "autodiff_cli/training/optimizers.py"
STATISTICS = "autodiff_cli/training/result/statistics.py"
SIMPLIFY, SIMPLIFIED = "autodiff_cli/algebra/simplify.py", ("tests/algebra/test_simplify.py",)
PASSES = "autodiff_cli/render/page/primitives/passes.js"

# fmt: off
MUTATIONS = [
    # derivative rules
    Mutation(ELEMENTARY, '"sin",    lambda z, x: cos(x)', '"sin",    lambda z, x: -cos(x)', _evaluators("sin")),
    Mutation(ELEMENTARY, '"cos",    lambda z, x: -sin(x)', '"cos",    lambda z, x: sin(x)', _evaluators("cos")),
    Mutation(ELEMENTARY, "lambda z, x: 1 / (2 * z)", "lambda z, x: 1 / z", _evaluators("sqrt")),
    Mutation(ELEMENTARY, "lambda z, x: z * log(2), is_positive", "lambda z, x: z, is_positive", _evaluators("exp2")),
    Mutation(ELEMENTARY, "where_defined(z, 1 / log(10) / x)", "1 / log(10) / x", OUTSIDE),
    Mutation(ELEMENTARY, "where_defined(z, atanh_slope(x)),              **INSIDE_1", "atanh_slope(x),              **INSIDE_1", OUTSIDE),
    Mutation(ELEMENTARY, "lambda z, x: -asin_slope(x)", "lambda z, x: asin_slope(x)", _evaluators("acos")),
    Mutation(ELEMENTARY, '"asec",   lambda z, x: 1 / abs_(x)', '"asec",   lambda z, x: 1 / x', _evaluators("asec")),
    Mutation(ELEMENTARY, "(direction(x, z), direction(y, z))", "(direction(y, z), direction(x, z))", _evaluators("hypot")),
    Mutation(ARITHMETIC, "(1 / y, -quotient_slope(x, y))", "(1 / y, quotient_slope(x, y))", _evaluators("div")),
    Mutation(ARITHMETIC, "(1, -1),          gate", "(1, 1),          gate", _evaluators("sub")),
    Mutation(ARITHMETIC, "lambda z, x, y: (y, x),", "lambda z, x, y: (x, y),", _evaluators("mul")),
    Mutation(ARITHMETIC, "round_((z - a) / b)", "round_((a - z) / b)", _evaluators("mod")),
    # masks
    Mutation(ARITHMETIC, "((x > 0, 1),)", "((x >= 0, 1),)", ZEROS),
    Mutation(ARITHMETIC, "(and_(x < low, low < high), 1)", "(and_(x > low, low < high), 1)", _evaluators("clip")),
    Mutation(ARITHMETIC, "(or_(x > high, low > high), 1)", "(x > high, 1)", ZEROS),
    Mutation(ARITHMETIC, "win / total) for", "win) for", ZEROS),
    Mutation(ARITHMETIC, "_tied_shares(z, xs, less)", "_tied_shares(z, xs, greater)", ZEROS),
    # predicates
    Mutation(ELEMENTARY, '"singular": lambda x: equal(x, 1)}', '"singular": lambda x: equal(x, 0)}', PREDICATES),
    Mutation(ELEMENTARY, "and_(x >= 0, x <= 1)", "and_(x >= 0, x < 1)", PREDICATES),
    Mutation(ELEMENTARY, "lambda x: abs_(x) <= 1", "lambda x: abs_(x) < 1", PREDICATES),
    Mutation(ELEMENTARY, "lambda x: abs_(x) >= 1", "lambda x: x >= 1", PREDICATES),
    Mutation(ELEMENTARY, '"domain": lambda x: x >= -1', '"domain": lambda x: x >= 0', PREDICATES),
    Mutation(ARITHMETIC, "equal(abs_(x - floor(x)), 0.5)", "equal(abs_(x - floor(x)), 0.25)", PREDICATES),
    Mutation(ARITHMETIC, "_tie_indicators(max_(*xs), xs)[1] > 1", "_tie_indicators(max_(*xs), xs)[1] > 2", PREDICATES),
    Mutation(ARITHMETIC, "singular=lambda x, y: equal(y, 0), title", "singular=lambda x, y: equal(x, 0), title", PREDICATES),
    # the loops
    Mutation(REVERSE, "amount if so_far is None else so_far + amount", "amount", LOOPS),
    Mutation(REVERSE, "            if adjoint is None:\n", "            if adjoint is None or adjoint == 0:\n", (*LOOPS, *ZEROS, "tests/explain/test_warnings.py")),
    Mutation(REVERSE, "partials(values[i], values[inputs[0]], values[inputs[1]])", "partials(values[i], values[inputs[1]], values[inputs[0]])", LOOPS),
    Mutation(FORWARD, "amount if rate is None else rate + amount", "amount", LOOPS),
    Mutation(FORWARD, "function(values[inputs[0]], values[inputs[1]])", "function(values[inputs[1]], values[inputs[0]])", LOOPS),
    Mutation("autodiff_cli/graph/tape.py", "if collecting:", "if False:", ("tests/graph", "tests/autodiff/test_depth.py")),
    # sums over rows
    Mutation("autodiff_cli/backends/reductions.py", "combine(pending.pop()[1], part)", "combine(part, waiting.pop()[1])", ("tests/backends/test_fold.py",)),
    Mutation("autodiff_cli/backends/reductions.py", "min(start + size, rows)", "min(start + size, rows - 1)", ("tests/backends/test_blocks.py",)),
    Mutation("autodiff_cli/backends/gradient_descent.py", "(within % run_rows).astype(dtype)", "(within // 2 % run_rows).astype(dtype)", EPOCHS),
    Mutation("autodiff_cli/backends/gradient_descent.py", "        generator.shuffle(leftover)\n", "", EPOCHS),
    Mutation("autodiff_cli/backends/llvm/backend.py", "fcmp une double {weight}, 0.0", "fcmp uno double {weight}, 0.0", EPOCHS),
    Mutation("autodiff_cli/backends/llvm/backend.py", "sub i64 {count}, {batch.index}", "sub i64 {job['end']}, {batch.index}", EPOCHS),
    Mutation("autodiff_cli/backends/llvm/backend.py", "fcmp ogt double {norm}", "fcmp olt double {norm}", EPOCHS),
    Mutation("autodiff_cli/backends/llvm/vectors.py", "trig_arguments[x] = None", "pass", INLINE),
    Mutation("autodiff_cli/backends/llvm/vectors.py", "log_arguments[argument] = None", "pass", INLINE),
    Mutation("autodiff_cli/backends/llvm/vectors.py", "fma(x, 0.0, m) - 1.0", "m - 1.0", INLINE),
    Mutation("autodiff_cli/backends/llvm/codegen.py", "memory.store_total(cell, total)", "pass", DIVISION),
    Mutation("autodiff_cli/backends/reductions.py", "product.op is not outer:", "True:", TOTALS),
    Mutation("autodiff_cli/backends/reductions.py", "else x * rows", "else x", TOTALS),
    Mutation("autodiff_cli/backends/reductions.py", "return rows if a.shape[-1]", "return 1 if a.shape[-1]", TOTALS),
    # fits
    Mutation(METHODS, "-expm1(_STEP * math.log(decay))", "_STEP / _STEP", OPTIMIZERS),
    Mutation(METHODS, "_GRADIENT + FIRST_MOMENT_DECAY * velocity", "velocity", OPTIMIZERS),
    Mutation(METHODS, "(1 - decay) * new", "new", OPTIMIZERS),
    Mutation(METHODS, "1 - _RATE * WEIGHT_DECAY", "1 + _RATE * WEIGHT_DECAY", OPTIMIZERS),
    Mutation(METHODS, 'variable("total") + square(_GRADIENT)', "square(_GRADIENT)", OPTIMIZERS),
    Mutation(STATISTICS, "residual_norm / math.sqrt(dof), definition", "residual_norm, definition", FITS),
    Mutation(STATISTICS, "1 - residual_norm * residual_norm / variation", "1 + residual_norm * residual_norm / variation", FITS),
    Mutation(STATISTICS, "objective.components - size", "objective.components", FITS),
    Mutation("autodiff_cli/training/fitting/progress.py", "epoch.number - self._best_epoch[0] >= self._patience", "epoch.number - self._best_epoch[0] > self._patience", ("tests/training/test_validation.py",)),
    Mutation("autodiff_cli/training/fitting/progress.py", "return math.inf if math.isnan(loss) else loss", "return loss", ("tests/training/test_validation.py", "tests/training/test_fit.py")),
    # simplifying
    Mutation(SIMPLIFY, "Row(-a + b, b - a)", "Row(-a + b, a - b)", SIMPLIFIED),
    Mutation(SIMPLIFY, "Row(0 - a, -a)", "Row(0 - a, a)", SIMPLIFIED),
    Mutation(SIMPLIFY, "Row(-(a - b), b - a)", "Row(-(a - b), a - b)", SIMPLIFIED),
    Mutation(SIMPLIFY, "Row(a * (1 / b), a / b)", "Row(a * (1 / b), a * b)", SIMPLIFIED),
    # rounding
    Mutation(ACTIVATIONS, "z - z * u * _standardization_error(x, mean, deviation, u) if", "z if", ("tests/ops/test_numerics.py", "-k", "mean_and_deviation")),
    Mutation(ACTIVATIONS, "return (1.0 if x >= 0 else z) / (1.0 + z)", "return 1.0 / (1.0 + z)", _evaluators("sigmoid")),
    Mutation(ACTIVATIONS, "return x + math.log(2)", "return x", _evaluators("logaddexp")),
    Mutation("autodiff_cli/explain/accuracy.py", "correct_digits: int = 12", "correct_digits: int = 5", DIGITS),
    Mutation("autodiff_cli/numbers/floats.py", "return math.copysign(UNDERFLOW_SUBSTITUTE, z) if -SMALLEST_NORMAL < z < SMALLEST_NORMAL and all(xs) else z", "return z", DIGITS),
    Mutation("autodiff_cli/numbers/ball_arithmetic.py", "low + 1 if x - low == fmpq(1, 2) and low % 2 else low", "low", DIGITS),
    Mutation("autodiff_cli/numbers/floats.py", "-units + (k**3 + k) % 7 - 3 or 1", "units", ("tests/explain/accuracy/test_correct_digits.py",)),
    Mutation("autodiff_cli/numbers/floats.py", "shift=20 if way == 2 else 12", "shift=12", ("tests/explain/accuracy/test_correct_digits.py",)),
    Mutation("autodiff_cli/graph/node.py", "return float(node.text) == value and is_exactly(node.text, value)", "return float(node.text) == value", ("tests/explain/accuracy/test_check.py",)),
    Mutation("autodiff_cli/numbers/floats.py", "z if is_exact else z * _FACTORS.next())\n\n    def __add__", "z)\n\n    def __add__", ("tests/fuzz/test_fuzz.py", "-k", "former")),
    Mutation("autodiff_cli/numbers/arrays.py", "function(x if is_exact else _perturb(x), *like)", "function(x, *like)", ARRAY_DIGITS),
    Mutation("autodiff_cli/numbers/arrays.py", "z = function(a, _perturb(b)) if (a.size > b.size) == is_large else function(_perturb(a), b)", "z = function(a, b)", ARRAY_DIGITS),
    Mutation("autodiff_cli/explain/array_accuracy.py", "if not doubtful:\n        return InaccurateDigits({})\n    try:\n        elements, unrolled = unroll_at([graphs", "if True:\n        return InaccurateDigits({})\n    try:\n        elements, unrolled = unroll_at([graphs", ARRAY_DIGITS),
    Mutation("autodiff_cli/numbers/floats.py", " + (z - z)  #", "  #", ("tests/explain/accuracy/test_correct_digits.py",)),
    Mutation("autodiff_cli/explain/array_accuracy.py", "doubtful[name] &= ~_is_certainly_correct(numbers[name], extended, distances[name])", "pass", ARRAY_DIGITS),
    Mutation("autodiff_cli/explain/precision.py", "return sys.float_info.max", "return math.inf", ("tests/explain/accuracy/test_enclosure.py",)),
    Mutation("autodiff_cli/explain/array_accuracy.py", "masks = [_is_doubtful(row, distance)", "masks = [np.zeros(len(row), dtype=bool)", ("tests/explain/accuracy/test_higher_derivatives.py",)),
    Mutation("autodiff_cli/numbers/gamma_functions.py", "if n <= 1 and a + b < 0.5 and not", "if False and not", ("tests/numbers/test_special.py", "tests/ops/test_digits.py")),
    # printing and reading
    Mutation("autodiff_cli/language/printer.py", "self.precedences[child] < form.operand_precedences[i]", "self.precedences[child] <= form.operand_precedences[i]", ("tests/language/test_printer.py", "tests/algebra/test_readable.py")),
    Mutation("autodiff_cli/language/lexer.py", "len(exponent) > MAX_EXPONENT_DIGITS", "False", ("tests/language/test_errors.py",)),
    # escaping
    Mutation("autodiff_cli/render/formatting.py", '("Cc", "Cf", "Cs", "Zl", "Zp")', '("Cf", "Cs", "Zl", "Zp")', ("tests/render/test_text.py",)),
    Mutation("autodiff_cli/render/report.py", "    table = table.escaped()\n", "", ("tests/render/fits/test_networks.py", "tests/render/test_report.py")),
    Mutation("autodiff_cli/render/html_page.py", "title=escape(title)", "title=title", ("tests/render/page/test_html.py",)),
    Mutation("autodiff_cli/render/drawing.py", "<title>{escape(box.label)}</title>", "<title>{box.label}</title>", ("tests/render/drawing/test_diagrams.py", "tests/e2e/test_drawings.py")),
    # files
    Mutation("autodiff_cli/data/writing.py", "stat.S_IMODE(old.st_mode) & 0o777", "0o644", WRITING),
    Mutation("autodiff_cli/data/writing.py", "        part.unlink(missing_ok=True)\n", "        pass\n", WRITING),
    Mutation("autodiff_cli/data/writing.py", "if not os.access(path, os.W_OK):", "if False:", WRITING),
    Mutation("autodiff_cli/formula/array_derivatives.py", "start, stop = self.start * scale, self.stop * scale", "start, stop, scale = self.start, self.stop, 1.0", POINTS),
    Mutation("autodiff_cli/formula/array_derivatives.py", "np.where(positions == last, self.stop, between / scale)", "between / scale", POINTS),
    Mutation("autodiff_cli/training/objective/parameters.py", "return np.clip(theta, self.low, self.high)", "return theta", ("tests/training/test_bounds.py",)),
    Mutation("autodiff_cli/training/objective/parameters.py", "((theta <= self.low) & (slopes > 0))", "((theta <= self.low) & (slopes < 0))", ("tests/training/test_bounds.py",)),
    Mutation(METHODS, "Update(clip(update.theta, low, high),", "Update(update.theta,", ("tests/training/test_bounds.py",)),
    Mutation("autodiff_cli/training/fitting/inference.py", "return math.sqrt(max(rise, 0.0))", "return max(rise, 0.0)", ("tests/training/intervals/test_profile.py",)),
    Mutation("autodiff_cli/training/fitting/inference.py", "((1 - level) / 2, (1 + level) / 2)", "(1 - level, level)", ("tests/training/intervals/test_bootstrap.py",)),
    Mutation("autodiff_cli/training/fitting/inference.py", "share = gradient[is_used] * errors", "share = np.abs(gradient[is_used]) * errors", ("tests/training/result/test_derived.py",)),
    Mutation("autodiff_cli/training/objective/kernels.py", "sqrt(1 + weight * functools", "sqrt(weight * functools", ("tests/training/test_x_errors.py",)),
    Mutation("autodiff_cli/training/result/fitted_model.py", "max(2, len(classes))", "max(1, len(classes))", MODELS),
    Mutation("autodiff_cli/training/result/fitted_model.py", "if version > _FORMAT_VERSION:", "if version > _FORMAT_VERSION + 1:", MODELS),
    Mutation("autodiff_cli/cli/predict.py", "if missing_names:", "if False:", ("tests/cli/commands/test_predict.py",)),
    # statuses
    Mutation("autodiff_cli/cli/main.py", "return 130", "return 1", STATUSES),
    Mutation("autodiff_cli/cli/main.py", "return _fail(environment, str(error), ExitStatus.FAILED)", "return _fail(environment, str(error), ExitStatus.DONE)", ("tests/cli/test_main.py", "tests/cli/commands/test_trace.py", "tests/cli/commands/test_check.py", "tests/cli/commands/test_predict.py")),
    # the page
    Mutation("autodiff_cli/render/page/panels/descend.js", "rate, step, this.#memory.get(label));", "rate, step, undefined);", ("tests/browser/test_page_panels.py", "-k", "steps_of_the_fit")),
    Mutation("autodiff_cli/render/page/primitives/tangents.js", "live.has(position) && rates[to] !== null", "rates[to] !== null", ("tests/browser/test_evaluator.py", "-k", "tangent")),
    Mutation("autodiff_cli/cli/server.py", 'origin.lower() != b"http://" + host', "not origin", ("tests/cli/serving/test_application.py", "-k", "others")),
    Mutation(PASSES, "contribution.amount : plus(arrived[to], contribution.amount)", "contribution.amount : contribution.amount", PAGE),
    Mutation(PASSES, "arrived[arrived.length - 1] = 1;", "arrived[arrived.length - 1] = 2;", PAGE),
    Mutation(PASSES, "times(local, adjoint)", "local", PAGE),
    Mutation(PASSES, "fitted(arriving, inputValues[position])", "arriving", PAGE),
]
# fmt: on
