"""Losses that make a network less sure while it is trained."""

from uqhelpers._checks import as_number

__all__ = ["focal_loss", "label_smoothing"]


def label_smoothing(amount=0.1):
    """A loss: the cross-entropy with labels that are a little uncertain.

    The target is ``1 - amount`` on the label, and ``amount`` spread evenly over
    all ``C`` classes. Its minimum is at the confidence ``1 - amount + amount / C``,
    never at 1.

    Parameters
    ----------
    amount : float
        From 0, which is the cross-entropy, to below 1.

    Returns
    -------
    callable
        Takes ``(outputs, targets)``: logits of shape (N, C) and labels of shape
        (N,), of an integer type, from 0 to C - 1; returns a scalar tensor, in
        nats. It raises ``ValueError`` for outputs that are probabilities
        already, for an empty batch, for targets that are not one a row, and for
        targets that are no labels (also for -100, which stands for "ignore"
        elsewhere).

    References
    ----------
    Szegedy et al. (2016), Rethinking the inception architecture for computer
    vision, section 7; Müller, Kornblith and Hinton (2019), When does label
    smoothing help?
    """
    from uqhelpers._torch import torch

    amount = as_number(amount, "amount", low=0)
    if amount >= 1:
        raise ValueError(f"amount: expected a number in [0, 1), got {amount}")

    def loss(outputs, targets):
        labels = _checked(outputs, targets)
        return torch.nn.functional.cross_entropy(outputs, labels, label_smoothing=amount)

    return loss


def focal_loss(gamma=2.0):
    """A loss: the cross-entropy, weighted by how far the label's probability is from 1.

    For one example ``-(1 - p)^gamma log p``, where ``p`` is the probability of
    the label. What is already known well hardly counts.

    Parameters
    ----------
    gamma : float
        At least 0; 0 is the cross-entropy. Above 0 the loss is no proper
        scoring rule: it is minimised by other probabilities than the true ones.
        Of two classes they are less extreme. Of many classes the largest is too
        small where it is high, and can be too large where it is low.

    Returns
    -------
    callable, as from :func:`label_smoothing`

    References
    ----------
    Lin et al. (2017), Focal loss for dense object detection, eq. 4; Mukhoti et
    al. (2020), Calibrating deep neural networks using focal loss; Charoenphakdee
    et al. (2021), On focal loss for class-posterior probability estimation.
    """
    from uqhelpers._torch import torch

    gamma = as_number(gamma, "gamma", low=0)

    def loss(outputs, targets):
        labels = _checked(outputs, targets)
        log_label = outputs.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        if gamma == 0:
            return -log_label.mean()
        # 1 - p without cancellation; the floor keeps the slope of its power finite where p is 1.
        rest = (-torch.expm1(log_label)).clamp_min(torch.finfo(outputs.dtype).tiny)
        return -(rest**gamma * log_label).mean()

    return loss


def _checked(outputs, targets):
    """The targets as indices. What no loss should swallow is refused."""
    seen = outputs.detach()
    if not seen.numel():
        raise ValueError("outputs: expected at least one row of logits, got an empty batch")
    # Gathering would take the first rows, and say nothing.
    if seen.ndim != 2 or targets.shape != seen.shape[:1]:
        raise ValueError(
            f"targets: expected one label a row of logits, got shape {tuple(targets.shape)} beside logits of "
            f"shape {tuple(seen.shape)}"
        )
    if seen.min() >= 0 and (seen.sum(-1) - 1).abs().max() < 1e-5:  # hardly learns, and says nothing of it
        raise ValueError("outputs: expected logits, got rows that sum to 1: leave the softmax out")
    if targets.is_floating_point() or targets.is_complex():
        raise ValueError(f"targets: expected whole numbers, got {targets.dtype}")
    low, high, classes = int(targets.min()), int(targets.max()), outputs.shape[-1]
    if low < 0 or high >= classes:
        raise ValueError(f"targets: expected labels from 0 to {classes - 1}, got {low} to {high}")
    return targets.long()
