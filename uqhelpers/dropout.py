"""Dropout layers: which they are, how to switch them alone, and many passes that repeat nothing.

What is found are layers. Dropout that a network calls as a function
(``torch.nn.functional.dropout``) is out of reach: :func:`forward_passes` tries
the network on one input first, and refuses one that holds both kinds,
for it would sample only a part of the randomness. What a network draws under a
``training`` flag of its own shows nothing while the flag is down, and is not found.
"""

import contextlib
import math
import random as of_python

import numpy as np

from uqhelpers._checks import as_choice, as_whole
from uqhelpers._progress import bar
from uqhelpers._torch import as_module, torch
from uqhelpers.training import as_inputs, evaluating, seeded

__all__ = ["MASKS", "Masks", "dropout_layers", "dropout_on", "forward_passes"]

nn = torch.nn

MASKS = ("independent", "shared", "paired")

# Layers that we know how to replace: those that drop single values, and those that drop whole channels.
ELEMENTWISE = (nn.Dropout,)
CHANNELWISE = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
UNBATCHED = {nn.Dropout1d: 3, nn.Dropout3d: 5}  # axes; with fewer, whole rows of the first are dropped

# Operations by whose name we know that running them once would freeze their randomness.
RANDOM_OPERATIONS = ("dropout", "rand", "bernoulli", "nomial", "normal_", "uniform_", "exponential", "gumbel")


def dropout_layers(model):
    """All of torch's layers in a network that drop at random in training mode.

    Besides dropout layers, and what derives from them, these are recurrent layers
    and multi-head attention with a dropout rate of their own. Not found, and so left
    off without a word, is what asks for ``training`` by itself: stochastic depth and
    other layers of one's own, ``scaled_dot_product_attention`` with a rate. A look:
    is the outputs' spread over passes that of a copy in training mode?

    Parameters
    ----------
    model : torch.nn.Module
        The network.

    Returns
    -------
    list of torch.nn.Module
        Never empty.

    Raises
    ------
    ValueError
        If there is none.
    """
    layers = [layer for layer in as_module(model).modules() if _drops(layer)]
    if not layers:
        raise ValueError(
            "model: expected at least one dropout layer (such as torch.nn.Dropout), got none. "
            "Dropout called as a function (torch.nn.functional.dropout) cannot be found: make it a layer"
        )
    return layers


@contextlib.contextmanager
def dropout_on(model):
    """Run a block with the network in evaluation mode but its dropout layers on.

    Afterwards, also after an exception, every layer is back in the mode in
    which it came. Batch normalisation stays in evaluation mode throughout: its
    running averages do not move.

    Parameters
    ----------
    model : torch.nn.Module
        The network.

    Raises
    ------
    ValueError
        If it holds no dropout layer.
    """
    layers = dropout_layers(model)
    # In evaluation mode torch runs transformers through a fused kernel that skips dropout.
    fused = torch.backends.mha.get_fastpath_enabled()
    with evaluating(model):
        try:
            torch.backends.mha.set_fastpath_enabled(False)
            for layer in layers:
                layer.training = True
            yield model
        finally:
            torch.backends.mha.set_fastpath_enabled(fused)


def forward_passes(model, inputs, passes, seed, masks, batch_size, progress):
    """The outputs of a network under sampled dropout masks, batch by batch and pass by pass.

    Parameters
    ----------
    model : torch.nn.Module
        With at least one dropout layer. Whenever the caller has the word, and
        afterwards, it is in the state in which it came.
    inputs : array, shape (N, ...), or a loader that keeps their order
    passes : int
        Masks for each input.
    seed : int
        The same seed, inputs and batch size give the same outputs.
    masks : {"independent", "shared", "paired"}
        As in ``mc_dropout.sample``.
    batch_size : int, inputs at a time
    progress : bool, whether a bar shows long work

    Yields
    ------
    iterator of tensors, shape (inputs in the batch, outputs), float64, on the CPU
        One for each batch; it gives the outputs of one pass after the other.

    Raises
    ------
    ValueError
        If the network has no dropout layer, or also calls dropout as a function,
        which is off; if shared or paired masks are asked of one that cannot be
        traced (or has hooks that tracing would lose), or in which the first axis
        that dropout sees is not that of the inputs.
    """
    layers = dropout_layers(model)
    passes, batch_size = as_whole(passes, "passes"), as_whole(batch_size, "batch_size")
    seed, masks = as_whole(seed, "seed", low=0), as_choice(masks, "masks", MASKS)
    inputs = as_inputs(inputs, model)
    device = next(model.parameters()).device
    strange = try_few(model, layers, few := inputs[: fewest(model)].to(device))
    if masks != "independent" and strange:
        _refuse_axis(masks, len(few), strange[0])
    network = _cut(model, layers)
    if network is None and masks != "independent":
        raise ValueError(
            f"masks: expected 'independent' for this model, got {masks!r}. Other masks need a network that "
            "torch.fx can trace, its randomness all in torch.nn.Dropout, 1d, 2d or 3d, no hooks on its blocks"
        )
    batches = inputs.split(batch_size)
    for number, batch in enumerate(bar(batches, progress, desc="sampling", unit="batch")):
        batch = batch.to(device)
        if network is None:
            outputs = _full_passes(model, batch, passes, (seed, number))
        else:
            outputs = network.passes(batch.clone(), passes, Masks(masks, seed, number, device, len(batch)))
        yield (_checked(output, len(batch)) for output in outputs)


def _checked(output, length):
    if not torch.is_tensor(output) or output.ndim not in (1, 2) or len(output) != length:
        came = tuple(output.shape) if torch.is_tensor(output) else type(output).__name__
        raise ValueError(f"model: expected outputs of shape ({length}, outputs), got {came}")
    if not torch.isfinite(output).all():
        raise ValueError("model: expected finite outputs, got NaN or infinity")
    return output.reshape(length, -1).double().cpu()


def _full_passes(model, batch, passes, key):
    """The plain way: every pass through the whole network, dropout layers on."""
    seeds = np.random.SeedSequence(key).generate_state(passes)
    for seed in seeds:
        with dropout_on(model), seeded(int(seed)), torch.inference_mode():
            output = model(batch.clone())  # layers that work in place must find it as it was
        yield output


class _Watch(torch.overrides.TorchFunctionMode):
    """While it lasts, notes whether dropout is called as a function that is switched off."""

    def __init__(self):
        super().__init__()
        self.off = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if "dropout" in getattr(function, "__name__", ""):
            rate, on = (*args[1:3], *(None, None)[len(args[1:3]) :])
            rate = kwargs.get("p", rate)
            on = kwargs.get("training", kwargs.get("train", on))
            self.off |= on is False and rate != 0
        return function(*args, **kwargs)


def fewest(model):
    """How many inputs a network needs: two where batch normalisation always uses the batch, else one."""
    batchwise = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    norms = [layer for layer in model.modules() if isinstance(layer, batchwise)]
    return 2 if any(layer.running_mean is None for layer in norms) else 1


def try_few(model, layers, few):
    """Run some inputs, dropout on: refuse what would stay off; return first axes that are not the inputs'."""
    ran = []
    handles = [layer.register_forward_pre_hook(lambda *seen: ran.append(seen)) for layer in layers]
    try:
        with dropout_on(model), seeded(0), torch.inference_mode(), _Watch() as watch:
            model(few.clone())
    finally:
        for handle in handles:
            handle.remove()
    if watch.off:
        raise ValueError(
            "model: expected dropout in layers only, got torch.nn.functional.dropout as well, which cannot "
            "be switched on from outside: make it a torch.nn.Dropout"
        )
    if not ran:
        raise ValueError("model: expected a dropout layer that runs when it predicts, got none that does")
    lengths = [len(given[0]) for layer, given in ran if type(layer) in ELEMENTWISE + CHANNELWISE and given]
    return [length for length in lengths if length != len(few)]


def _refuse_axis(masks, inputs, length):
    raise ValueError(
        f"masks: expected 'independent' for this model, got {masks!r}: a dropout layer sees a first axis of "
        f"length {length} for {inputs} input(s), so it is not the inputs' (tokens or places among them, or a "
        "sequence first), and a mask shared along it would not be one network"
    )


class Masks:
    """Draws what a dropout layer keeps.

    On the CPU the masks come from NumPy's generator, sixteen random bits each:
    an order of magnitude faster than torch's Bernoulli numbers. Rates are
    thereby rounded to multiples of 2⁻¹⁶, and the kept values are scaled by the
    rounded rate, so that their mean is exactly right.

    Parameters
    ----------
    kind : {"independent", "shared", "paired"}
        Which of the masks are the same.
    seed, batch : int
        From which the masks follow; only independent ones change with the batch.
    device : torch.device
        Where they are needed.
    length : int
        How many inputs the batch holds.
    """

    LEVELS = 2**16

    def __init__(self, kind, seed, batch, device, length):
        self.kind, self.seed, self.batch, self.device, self.length = kind, seed, batch, device, length
        self.start(0)

    def start(self, number):
        """Begin pass ``number``: batches share what is not independent, and pairs mirror the pass before."""
        self.mirrored = self.kind == "paired" and number % 2 == 1
        stream = number - self.mirrored
        key = (self.seed, stream) if self.kind != "independent" else (self.seed, stream, self.batch)
        if self.device.type == "cpu":
            self.generator = np.random.default_rng(np.random.SeedSequence(key))
        else:
            state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
            self.generator = torch.Generator(self.device).manual_seed(int(state) >> 1)

    def draw(self, values, layer):
        """What to keep of ``values`` (booleans that broadcast against it), and the scale of what is kept."""
        size = list(values.shape)
        if self.kind != "independent":
            if size[0] != self.length:
                _refuse_axis(self.kind, self.length, size[0])
            size[0] = 1
        if isinstance(layer, CHANNELWISE):
            # To torch, what has an axis less than such a layer expects is one input: its rows are channels.
            first = 1 if len(size) < UNBATCHED.get(type(layer), 0) else 2
            size[first:] = [1] * len(size[first:])
        threshold = round((1 - layer.p) * self.LEVELS)
        levels = self._levels(size)
        kept = levels >= self.LEVELS - threshold if self.mirrored else levels < threshold
        kept = torch.from_numpy(kept) if isinstance(kept, np.ndarray) else kept
        return kept, (self.LEVELS / threshold if threshold else 0.0)

    def _levels(self, size):
        count = math.prod(size)
        if isinstance(self.generator, torch.Generator):
            return torch.randint(self.LEVELS, size, generator=self.generator, device=self.device)
        words = self.generator.integers(2**64 - 1, size=-(-count // 4), dtype=np.uint64, endpoint=True)
        return words.view(np.uint16)[:count].reshape(size)


class _Drop(nn.Module):
    """A dropout layer whose masks are drawn by :class:`Masks`."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def begin(self, masks):
        self.masks = masks

    def forward(self, values):
        kept, scale = self.masks.draw(values, self.layer)
        return _keep(values, kept) * scale


class _DropThenLinear(nn.Module):
    """A dropout layer and the linear layer behind it, in one.

    Scaling the weights, once a batch, is cheaper than scaling the values in
    every pass. And of a complementary pair at rate 1/2 the second output
    follows from the first: both add up to twice the output without dropout,
    which is computed once a batch.
    """

    def __init__(self, layer, linear, fixed):
        super().__init__()
        self.layer, self.linear = layer, linear
        self.fixed = fixed  # whether the values are the same in every pass

    def begin(self, masks):
        self.masks, self.scaled, self.twice, self.twin = masks, None, None, None

    def forward(self, values):
        weight, bias = self.linear.weight, self.linear.bias
        if self.masks.mirrored and self.fixed and self.layer.p == 0.5:
            if self.twice is None:
                self.twice = 2 * nn.functional.linear(values, weight, bias)
            return self.twice - self.twin
        kept, scale = self.masks.draw(values, self.layer)
        if self.scaled is None:
            self.scaled = weight * scale
        output = nn.functional.linear(_keep(values, kept), self.scaled, bias)
        if self.masks.kind == "paired" and self.fixed and self.layer.p == 0.5:
            self.twin = output.clone()  # what comes next may work in place
        return output


def _keep(values, kept):
    if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64):
        return torch.from_numpy(np.multiply(values.numpy(), kept.numpy()))  # three times as fast as torch's
    return values * kept


class _Cut:
    """A traced network in two parts: what all passes share, and what each pass does itself."""

    def __init__(self, model, traced, random):
        from torch.fx.passes.split_module import split_module

        self.model = model
        self.whole = split_module(traced, traced, lambda node: int(node in random))
        self.rest = self.whole.get_submodule("submod_1")
        self.drops = _replace_dropout(self.rest)

    def passes(self, batch, passes, masks):
        # Evaluation mode is entered anew for each pass: nothing stays switched while the caller works.
        with evaluating(self.model), torch.inference_mode():
            shared = self._shared(batch)
        for drop in self.drops:
            drop.begin(masks)
        for number in range(passes):
            masks.start(number)
            with evaluating(self.model), torch.inference_mode():
                output = self.rest(*shared)
            yield output

    def _shared(self, batch):
        """Run everything but the part that drops, and return what that part asks for."""
        runner = torch.fx.Interpreter(self.whole)
        runner.args_iter = iter([batch])
        for node in self.whole.graph.nodes:
            if node.target == "submod_1":
                return runner.fetch_args_kwargs_from_env(node)[0]
            runner.env[node] = runner.run_node(node)
        raise AssertionError("a network with dropout has a part that drops")


def _cut(model, layers):
    """The network cut in two, or None where only the plain way is sure to be right."""
    known = all(type(layer) in ELEMENTWISE + CHANNELWISE for layer in layers)
    traced = _graph_of(model) if known and not _is_watched(model, layers) else None
    if traced is None:
        return None
    random = set()
    for node in traced.graph.nodes:
        layer = traced.get_submodule(node.target) if node.op == "call_module" else None
        if _has_other_randomness(node, layer) or _breaks_when_cut(node, traced, random):
            return None
        if node.op == "output":
            result = node.args[0]
        elif (layer is not None and _drops(layer)) or random.intersection(node.all_input_nodes):
            random.add(node)
    one = isinstance(result, torch.fx.Node) and result in random  # and not several, or none that drops
    return _Cut(model, traced, random) if one else None


def _is_watched(model, layers):
    """Whether hooks hang where they would be lost: on dropout layers, or on what tracing takes apart."""
    is_leaf = torch.fx.Tracer().is_leaf_module
    apart = [layer for layer in model.modules() if layer is model or not is_leaf(layer, "")]
    return any(layer._forward_hooks or layer._forward_pre_hooks for layer in (*apart, *layers))


def _graph_of(model):
    """The network as a graph; None where it has none, or one that holds what was drawn while it was made."""
    numpys, pythons = np.random.get_state(), of_python.getstate()  # noqa: NPY002
    try:
        with evaluating(model), seeded(0):
            before, traced = _drawn_so_far(), torch.fx.symbolic_trace(model)  # one after the other
            return traced if _drawn_so_far() == before else None
    except Exception:  # tracing runs the caller's own forward on symbols, and that may raise anything
        return None
    finally:
        np.random.set_state(numpys)  # noqa: NPY002
        of_python.setstate(pythons)


def _drawn_so_far():
    """Where the global generators stand, to be compared."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    torchs = [state.numpy().tobytes() for state in (torch.get_rng_state(), *gpus)]
    return torchs, of_python.getstate(), str(np.random.get_state()[1:])  # noqa: NPY002


def _breaks_when_cut(node, traced, random):
    """Whether an operation works in place on a value that others, or later passes, read."""
    if not node.args or not isinstance(node.args[0], torch.fx.Node) or not _works_in_place(node, traced):
        return False
    layer = traced.get_submodule(node.target) if node.op == "call_module" else None
    if node.args[0] not in random and random.intersection(node.all_input_nodes):
        return True  # every pass would work on what the one before left behind
    if layer is not None and not _drops(layer) and node.args[0] in random:
        return False  # it runs where it ran
    value = node.args[0]
    while len(value.users) == 1 and _may_be_a_view(value, traced):
        value = value.args[0]
    return len(value.users) > 1


def _works_in_place(node, traced):
    if node.op == "call_module":
        return bool(getattr(traced.get_submodule(node.target), "inplace", False))
    name = str(getattr(node.target, "__name__", node.target))
    named = name.endswith("_") and not name.endswith("__")
    return node.op.startswith("call_") and (named or name == "setitem" or bool(node.kwargs.get("inplace")))


def _may_be_a_view(node, traced):
    """Whether a value may share its memory with what it was made of."""
    views = nn.Flatten | nn.Unflatten | nn.Identity
    if node.op == "call_module" and not isinstance(traced.get_submodule(node.target), views):
        return False
    return node.op.startswith("call_") and bool(node.args) and isinstance(node.args[0], torch.fx.Node)


def _drops(layer):
    """Whether a layer drops at random in training mode."""
    if isinstance(layer, nn.RNNBase):
        return layer.dropout > 0 and layer.num_layers > 1  # it drops between its layers
    own_rate = isinstance(layer, nn.MultiheadAttention) and layer.dropout > 0
    return own_rate or isinstance(layer, nn.modules.dropout._DropoutNd)


def _has_other_randomness(node, layer):
    """Whether a traced operation draws random numbers that are not those of a layer we replace."""
    if layer is not None:  # a layer of torch's own that holds dropout layers inside, such as a transformer's
        return any(_drops(inner) for inner in layer.modules() if inner is not layer)
    name = str(getattr(node.target, "__name__", node.target)) + "_"  # normal_ draws, normalize_ does not
    return node.op.startswith("call_") and any(word in name for word in RANDOM_OPERATIONS)


def _replace_dropout(graph):
    """Put our layers in the place of the dropout layers of a traced network."""
    drops = []
    for node in list(graph.graph.nodes):
        layer = graph.get_submodule(node.target) if node.op == "call_module" else None
        if type(layer) not in ELEMENTWISE + CHANNELWISE:
            continue
        linear = _only_linear_behind(graph, node) if isinstance(layer, ELEMENTWISE) else None
        if linear is None:
            drop, replaced = _Drop(layer), node
        else:
            fixed = node.args[0].op == "placeholder"
            drop, replaced = _DropThenLinear(layer, graph.get_submodule(linear.target), fixed), linear
            linear.args = node.args
        replaced.target = f"drop_{len(drops)}"
        graph.add_submodule(replaced.target, drop)
        if linear is not None:
            graph.graph.erase_node(node)
        drops.append(drop)
    graph.recompile()
    return drops


def _only_linear_behind(graph, node):
    """The node of the plain linear layer that alone reads a node's value, or None."""
    users = list(node.users)
    if len(users) != 1 or users[0].op != "call_module":
        return None
    layer = graph.get_submodule(users[0].target)
    watched = layer._forward_hooks or layer._forward_pre_hooks
    return users[0] if type(layer) is nn.Linear and not watched else None
