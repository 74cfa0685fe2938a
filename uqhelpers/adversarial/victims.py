"""Who is attacked: something differentiable that puts out the logits of one or several sampled networks."""

import contextlib

import numpy as np

from uqhelpers._checks import as_labels, as_whole, to_numpy
from uqhelpers._torch import torch
from uqhelpers.dropout import (
    CHANNELWISE,
    ELEMENTWISE,
    Masks,
    dropout_layers,
    dropout_on,
    fewest,
    try_few,
)
from uqhelpers.training import FEW, are_probabilities, evaluating, seeded

nn = torch.nn

OWN = 2**40  # added to seeds, so that no attack draws the masks by which MC-Dropout answers


def as_victim(model, passes=None, seed=0):
    """A victim from a network, several networks, a network with ``passes`` masks, or a function."""
    seed = as_whole(seed, "seed", low=0)
    if passes is not None:
        if not isinstance(model, nn.Module):
            raise ValueError(f"passes: expected None unless model is one network, got {passes!r}")
        return Thinned(model, as_whole(passes, "passes"), seed)
    if isinstance(model, nn.Module):
        return Networks([model])
    if callable(model):
        return Function(model)
    networks = list(model) if isinstance(model, list | tuple) else []
    if not networks or not all(isinstance(network, nn.Module) for network in networks):
        raise ValueError(
            "model: expected a torch.nn.Module, a list of them, or a function from inputs to logits, "
            f"got {model!r:.80}"
        )
    return Networks(networks)


class Networks:
    """One network, or several whose probabilities are averaged."""

    def __init__(self, networks):
        self.networks = networks
        tensors = [*networks[0].parameters(), *networks[0].buffers()]
        kinds = [tensor for tensor in tensors if tensor.is_floating_point()]
        self.dtype = kinds[0].dtype if kinds else torch.float32
        self.device = kinds[0].device if kinds else torch.device("cpu")

    @contextlib.contextmanager
    def settled(self):
        """All networks in evaluation mode, and afterwards as they were."""
        with contextlib.ExitStack() as stack:
            for network in self.networks:
                stack.enter_context(evaluating(network))
            yield

    def outputs(self, part, draw):
        """Logits of shape (S, N, C) of one batch; ``draw`` says which random numbers, if there are any."""
        return torch.stack([network(part.clone()) for network in self.networks])  # some work in place

    def logits(self, part, draw):
        """The same, checked."""
        found = self.outputs(part, draw)
        if found.ndim != 3 or found.shape[1] != len(part) or found.shape[2] < 2:
            raise ValueError(
                f"model: expected logits of shape ({len(part)}, at least 2 classes), "
                f"got {tuple(found.shape[1:])}"
            )
        if not torch.isfinite(found.detach()).all():
            raise ValueError("model: expected finite logits, got NaN or infinity")
        return found

    def log_probs(self, part, draw=(0, 0)):
        """Logarithms of the sampled class probabilities, shape (S, N, C)."""
        return self.logits(part, draw).log_softmax(-1)


class Function(Networks):
    """A function written with torch, from inputs to logits of shape (N, C) or (S, N, C)."""

    def __init__(self, function):
        self.function, self.networks = function, []
        self.dtype, self.device = torch.float32, torch.device("cpu")

    def outputs(self, part, draw):
        found = self.function(part.clone())
        if not torch.is_tensor(found) or found.ndim not in (2, 3):
            came = tuple(found.shape) if torch.is_tensor(found) else type(found).__name__
            raise ValueError(
                f"model: expected logits of shape (inputs, classes) from the function, got {came}"
            )
        return found if found.ndim == 3 else found[None]


class Thinned(Networks):
    """A network whose dropout stays on: ``passes`` masks for every input, new ones in every draw.

    What comes before the first dropout layer runs once, and its result is
    repeated as it enters that layer. Where the network does not allow that (a
    shortcut around its dropout, or dropout that meets tokens or places where it
    should meet inputs), the inputs themselves are repeated. A network that also
    calls dropout as a function, which is off, is refused.
    """

    def __init__(self, network, passes, seed):
        super().__init__([network])
        self.layers, self.passes, self.seed = dropout_layers(network), passes, seed
        self.late = None  # whether what comes before the first dropout layer runs once, when tried
        self.known = all(type(layer) in ELEMENTWISE + CHANNELWISE for layer in self.layers)

    def outputs(self, part, draw):
        if self.late is None:
            few = part[: fewest(self.networks[0])].detach()
            self.late = not try_few(self.networks[0], self.layers, few)
        if not self.known:  # recurrent layers, attention: pass by pass, as they are
            return self._pass_by_pass(part, draw)
        if self.late:
            try:
                return self._masked(part, part, draw, late=True)
            except RuntimeError:  # shapes that do not fit
                self.late = False
        return self._masked(part.repeat(self.passes, *[1] * (part.ndim - 1)), part, draw, late=False)

    def _masked(self, given, part, draw, late):
        step, batch = draw
        masks = Masks("independent", OWN + self.seed, batch, part.device, self.passes * len(part))
        masks.start(step)
        hook = self._hook(masks, len(part) if late else None)
        handles = [layer.register_forward_hook(hook) for layer in self.layers]
        try:
            found = self.networks[0](given.clone())
        finally:
            for handle in handles:
                handle.remove()
        if len(found) != self.passes * len(part):
            raise RuntimeError("the passes were lost on the way")
        return found.reshape(self.passes, len(part), *found.shape[1:])

    def _hook(self, masks, length):
        def drop(layer, _, values):
            if length and len(values) not in (length, self.passes * length):
                raise RuntimeError("the inputs were lost on the way")
            if len(values) == length:
                values = values.repeat(self.passes, *[1] * (values.ndim - 1))
            kept, scale = masks.draw(values, layer)
            return values * kept * scale

        return drop

    def _pass_by_pass(self, part, draw):
        network, found = self.networks[0], []
        for number in range(self.passes):
            key = np.random.SeedSequence((OWN + self.seed, *draw, number)).generate_state(1)[0]
            with dropout_on(network), seeded(int(key)):
                found.append(network(part.clone()))
        return torch.stack(found)


def as_inputs(victim, inputs):
    """Real numbers as a tensor where the victim is."""
    tensor = inputs.detach() if torch.is_tensor(inputs) else torch.from_numpy(to_numpy(inputs, "inputs"))
    if not tensor.is_floating_point() or tensor.ndim < 2 or tensor.numel() == 0:
        raise ValueError(
            "inputs: expected real numbers, shape (inputs, ...), that can be changed a little, "
            f"got {tensor.dtype} of shape {tuple(tensor.shape)}"
        )
    if not torch.isfinite(tensor).all():
        raise ValueError("inputs: expected finite numbers, got NaN or infinity")
    return tensor.to(victim.device, victim.dtype).clone()  # one made in inference mode can have no gradient


def as_problem(victim, inputs, labels, name="labels"):
    """Inputs as real numbers and labels as whole ones, both as tensors where the victim is."""
    tensor = as_inputs(victim, inputs)
    classes = as_labels(labels, classes_of(victim, tensor), name, length=len(tensor))
    return tensor, torch.from_numpy(classes).to(victim.device)


def classes_of(victim, tensor):
    """How many classes the victim knows; they have to come as logits: one input is enough to see."""
    with victim.settled(), torch.no_grad():
        seen = victim.logits(tensor[:1], (0, 0))
        # One row of logits may sum to 1 by chance; some more will not.
        if are_probabilities(seen) and are_probabilities(victim.logits(tensor[:FEW], (0, 0))):
            raise ValueError("model: expected logits, got rows that sum to 1: leave the softmax out")
    return seen.shape[-1]
