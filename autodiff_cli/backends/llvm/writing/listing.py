"""Instructions put into an order and written down as LLVM's text.

The order follows what the results need, one after the other, so that few values are alive at a time. Only calls of the
mathematical library come first, with all that they need: a call spills every register, sums under way included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autodiff_cli.backends.llvm.functions.vectors import INTRINSICS, WRITTEN_OUT, Aside, Lane, Vector, ordered
from autodiff_cli.backends.llvm.target import Processor
from autodiff_cli.backends.llvm.writing.text import Text

# What may be fused: a product and a sum. Nothing else is taken lightly; least of all that there is no nan.
_FUSED = "contract "

_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of √½

ATTRIBUTES = "#0"  # of functions that work on vectors


class ModuleText:
    """The text of a module under way: its functions, and what they call.

    Args:
        target: the processor.

    Attributes:
        floats: the type of a vector of doubles.
    """

    def __init__(self, target: Processor) -> None:
        self.target = target
        self._functions: list[str] = []
        self._declarations: dict[str, None] = {}
        self._asides: dict[Aside, str] = {}
        self._types = {kind: f"<{target.width} x {kind.value}>" for kind in Lane}
        self.floats = self._types[Lane.FLOAT]

    def type(self, kind: Lane) -> str:
        """The type of a vector."""
        return self._types[kind]

    def add(self, text: Text) -> None:
        """A function that is finished."""
        self._functions.append(text.close())

    def declare(self, signature: str) -> None:
        """A function from elsewhere: `double @exp(double)`."""
        self._declarations[f"declare {signature} #1"] = None

    def declare_memset(self) -> None:
        """LLVM's function that fills memory."""
        self._declarations["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"] = None

    def across(self, text: Text, vector: str) -> str:
        """A line that adds the lanes of a vector up."""
        name = f"@llvm.vector.reduce.fadd.v{self.target.width}f64"
        self.declare(f"double {name}(double, {self.floats})")
        return text.put(f"call reassoc double {name}(double -0.0, {self.floats} {vector})")

    def aside(self, aside: Aside) -> str:
        """The name of the function for code that is seldom needed."""
        if aside not in self._asides:
            name = self._asides[aside] = f"@aside{len(self._asides)}"
            count = aside.key[-1]
            places = ", ".join(f"{self.floats} %a{k}" for k in range(count))
            text = Text(f"define internal {self.floats} {name}({places}) noinline {ATTRIBUTES} {{")
            listing = Listing(self, text, lambda vector: f"%a{vector.detail}")
            listing.put_all(ordered([aside.found]))
            text.do(f"ret {self.floats} {listing.name(aside.found)}")
            self._functions.append("\n".join([*text.lines, "}\n"]))
        return self._asides[aside]

    def finished(self) -> str:
        """The text of the whole module."""
        bits = 64 * self.target.width
        # Registers that are spilled would else lie across lines of the cache, or not, as it happens.
        of_vectors = f'alignstack={self.target.bytes} "min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}"'
        attributes = (
            f"attributes #0 = {{ nounwind {of_vectors} }}\nattributes #1 = {{ nounwind willreturn memory(none) }}\n"
        )
        head = f'target triple = "{self.target.triple}"\n'
        return "\n".join([head, *self._declarations, "", *self._functions, attributes])


class Listing:
    """Writes instructions to a function.

    Args:
        load: writes what is needed to load something, and gives the name of the result.
    """

    def __init__(self, module: ModuleText, text: Text, load: Callable[[Vector], str]) -> None:
        self._module = module
        self._text = text
        self._load = load
        self._names: dict[Vector, str] = {}

    def copy(self) -> Listing:
        """One that has what was written so far, and goes its own way."""
        made = Listing(self._module, self._text, self._load)
        made._names |= self._names
        return made

    def name(self, vector: Vector) -> str:
        """The name of a result that is written down, or the text of a number."""
        return f"splat (double {vector.detail})" if vector.op == "number" else self._names[vector]

    def put_all(self, vectors: Iterable[Vector]) -> None:
        """Write instructions down, each after its inputs."""
        for vector in vectors:
            if vector not in self._names and vector.op != "number":
                self._names[vector] = self._put(vector)

    def _put(self, vector: Vector) -> str:
        put, floats = self._text.put, self._module.floats
        names = [self.name(each) for each in vector.inputs]
        match vector.op:
            case "load" | "argument":
                return self._load(vector)
            case "fadd" | "fsub" | "fmul":
                fused = "" if vector.detail == "rounded" else _FUSED
                return put(f"{vector.op} {fused}{floats} {names[0]}, {names[1]}")
            case "fdiv" | "frem":
                return put(f"{vector.op} {floats} {names[0]}, {names[1]}")
            case "fneg":
                return put(f"fneg {floats} {names[0]}")
            case "fabs":
                return self._call("fabs", names)
            case "fcmp":
                return put(f"fcmp {vector.detail} {floats} {names[0]}, {names[1]}")
            case "and" | "or":
                return put(f"{vector.op} {self._module.type(Lane.TRUTH)} {names[0]}, {names[1]}")
            case "not":
                return put(f"xor {self._module.type(Lane.TRUTH)} {names[0]}, splat (i1 true)")
            case "select":
                masks = self._module.type(Lane.TRUTH)
                return put(f"select {masks} {names[0]}, {floats} {names[1]}, {floats} {names[2]}")
            case "exponent":  # the last bits as those of an exponent
                wholes = self._module.type(Lane.WHOLE)
                whole = put(f"bitcast {floats} {names[0]} to {wholes}")
                return put(f"bitcast {wholes} {put(f'shl {wholes} {whole}, splat (i64 52)')} to {floats}")
            case "scaled":  # by a power of two
                name = "@llvm.x86.avx512.mask.scalef.pd.512"
                self._module.declare(f"{floats} {name}({floats}, {floats}, {floats}, i8, i32)")
                given = ", ".join(f"{floats} {each}" for each in (*names, names[0]))
                return put(f"call {floats} {name}({given}, i8 -1, i32 4)")
            case "binade" | "mantissa":  # 2^52 + 1023 + the k of x = 2^k·m, or m, which lies between √½ and √2
                wholes = self._module.type(Lane.WHOLE)
                whole = put(f"bitcast {floats} {names[0]} to {wholes}")
                moved = put(f"sub {wholes} {whole}, splat (i64 {_ROOT_HALF - (1023 << 52)})")
                if vector.op == "binade":
                    k = put(f"lshr {wholes} {moved}, splat (i64 52)")
                    found = put(f"or {wholes} {k}, splat (i64 {1075 << 52})")
                else:
                    rest = put(f"and {wholes} {moved}, splat (i64 {(1 << 52) - 1})")
                    found = put(f"add {wholes} {rest}, splat (i64 {_ROOT_HALF})")
                return put(f"bitcast {wholes} {found} to {floats}")
            case "odd":  # the last bit
                wholes = self._module.type(Lane.WHOLE)
                whole = put(f"bitcast {floats} {names[0]} to {wholes}")
                return put(f"trunc {wholes} {whole} to {self._module.type(Lane.TRUTH)}")
            case "turned":  # the last bit but one as a sign
                wholes = self._module.type(Lane.WHOLE)
                whole, at = (put(f"bitcast {floats} {name} to {wholes}") for name in names)
                moved = put(f"shl {wholes} {at}, splat (i64 62)")
                sign = put(f"and {wholes} {moved}, splat (i64 {-(2**63)})")
                return put(f"bitcast {wholes} {put(f'xor {wholes} {whole}, {sign}')} to {floats}")
            case "call":
                return self._call(vector.detail, names)
            case "rarely":
                needed, usual, *arguments = names
                given = ", ".join(f"{floats} {each}" for each in arguments)
                call = f"call {floats} {self._module.aside(vector.detail)}({given})"
                return self._unless(needed, usual, lambda: self._chosen(needed, put(call), usual))
        raise NotImplementedError(vector.op)

    def _call(self, name: str, arguments: Sequence[str]) -> str:
        module, count = self._module, len(arguments)
        floats = module.floats
        symbol = f"llvm.{name}.v{module.target.width}f64" if name in INTRINSICS else module.target.symbol(name, count)
        if symbol is None:
            return self._lane_by_lane(name, arguments)
        module.declare(f"{floats} @{symbol}({', '.join([floats] * count)})")
        return self._text.put(f"call {floats} @{symbol}({', '.join(f'{floats} {each}' for each in arguments)})")

    def _lane_by_lane(self, name: str, arguments: Sequence[str]) -> str:
        """The function of C's own library, for each number."""
        put, floats = self._text.put, self._module.floats
        self._module.declare(f"double @{name}({', '.join(['double'] * len(arguments))})")
        result = "poison"
        for lane in range(self._module.target.width):
            lanes = [put(f"extractelement {floats} {each}, i64 {lane}") for each in arguments]
            found = put(f"call double @{name}({', '.join(f'double {each}' for each in lanes)})")
            result = put(f"insertelement {floats} {result}, double {found}, i64 {lane}")
        return result

    def _chosen(self, mask: str, yes: str, no: str) -> str:
        masks, floats = self._module.type(Lane.TRUTH), self._module.floats
        return self._text.put(f"select {masks} {mask}, {floats} {yes}, {floats} {no}")

    def _unless(self, needed: str, usual: str, careful: Callable[[], str]) -> str:
        """What is usual; what else is written by `careful` if a lane of the mask says so."""
        text, masks, width = self._text, self._module.type(Lane.TRUTH), self._module.target.width
        lanes = text.put(f"bitcast {masks} {needed} to i{width}")
        any_lane = text.put(f"icmp ne i{width} {lanes}, 0")
        before, slow, after = text.block, text.label(), text.label()
        text.do(f"br i1 {any_lane}, label %{slow}, label %{after}")
        text.begin(slow)
        chosen = careful()
        text.do(f"br label %{after}")
        text.begin(after)
        return text.put(f"phi {self._module.floats} [ {usual}, %{before} ], [ {chosen}, %{slow} ]")


class Order:
    """An order of instructions.

    Args:
        roots: the results that are wanted, in the order in which they are.

    Attributes:
        fixed: what is the same in every pass of the loop over rows.
        early: the calls of the library that are not, and all that they need besides.
        loads: all that is loaded.
        size: how many instructions there are.
        has_functions: whether functions are among them, called or written out.
    """

    def __init__(self, roots: Sequence[Vector]) -> None:
        order = ordered(roots)
        calls: set[Vector] = set()
        for vector in reversed(order):
            if vector in calls or (vector.op == "call" and vector.detail not in INTRINSICS):
                calls.add(vector)
                calls.update(vector.inputs)
        self.fixed = [vector for vector in order if not vector.varies]
        self.early = [vector for vector in order if vector.varies and vector in calls]
        self.loads = [vector for vector in order if vector.op == "load"]
        self.size = len(order)
        self.has_functions = bool(self.early) or any(vector.op in WRITTEN_OUT for vector in order)
        self._done = {*self.fixed, *self.early}

    def needed(self, root: Vector) -> list[Vector]:
        """What else comes before a root, and itself, unless it has been asked for already."""
        return ordered([root], self._done)
