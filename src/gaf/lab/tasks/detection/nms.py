"""From a network's outputs to detections: decode, drop the uncertain, keep one box for each object."""

from __future__ import annotations

import torch
from torch import Tensor

from gaf.lab.tasks.detection.boxes import decode, iou

CERTAIN = 0.01  # probability below which a box is dropped
CANDIDATES = 200  # boxes of a class that are looked at
SAME = 0.45  # intersection over union above which two boxes of a class show one object
KEPT = 200  # detections of an image


def suppress(boxes: Tensor, valid: Tensor, threshold: float = SAME) -> Tensor:
    """Greedy non-maximum suppression of many lists at once, each ordered from the most certain.

    A box is kept unless a kept one before it overlaps it by more than the threshold. The definition is
    applied to all boxes together until nothing changes. After n rounds at least the first n of a list are
    right, as each depends on those before it alone, so it ends, with the greedy result; mostly after a few.

    Args:
        boxes: [..., N, 4].
        valid: bool [..., N]; others are never kept and suppress nothing.
        threshold: of the intersection over union.
    """
    rivals = torch.triu(iou(boxes, boxes) > threshold, diagonal=1).to(boxes.dtype)
    kept = valid
    while True:
        beaten = torch.matmul(kept.to(boxes.dtype)[..., None, :], rivals).squeeze(-2) > 0
        settled = valid & ~beaten
        if torch.equal(settled, kept):
            return kept
        kept = settled


def detect(logits: Tensor, numbers: Tensor, defaults: Tensor) -> Tensor:
    """The detections of each image: float32 [B, 200, 6] of (label, score, left, top, right, bottom).

    The most certain come first. Labels are the data's, from 0; rows beyond the detections of an image have
    label -1 and score 0. Boxes are cut at the edges of the image. A default box whose logits or numbers are
    not finite gives no detection.

    Args:
        logits: of the classes with background, [B, P, classes + 1].
        numbers: of the boxes, [B, P, 4].
        defaults: the default boxes in centre form, [P, 4].
    """
    scores = logits.float().softmax(dim=-1)[..., 1:].transpose(1, 2)  # [B, classes, P]
    finite = logits.isfinite().all(dim=-1) & numbers.isfinite().all(dim=-1)  # [B, P]
    scores = torch.where(finite[:, None], scores, 0.0)
    boxes = decode(numbers.float(), defaults)
    most = min(CANDIDATES, scores.shape[-1])
    score, place = scores.topk(most, dim=-1)
    rows = torch.arange(len(boxes), device=boxes.device)[:, None, None]
    candidates = boxes[rows, place]  # [B, classes, 200, 4]
    cut = candidates.clamp(0, 1)
    inside = (cut[..., 2:] > cut[..., :2]).all(dim=-1)
    kept = suppress(
        candidates, (score > CERTAIN) & inside
    )  # whole boxes: the cut ones overlap more
    score = torch.where(kept, score, 0.0)
    label = torch.arange(score.shape[1], device=score.device)[:, None].expand_as(score)
    every = torch.cat((label[..., None].float(), score[..., None], cut), dim=-1).flatten(1, 2)
    best = every[..., 1].topk(min(KEPT, every.shape[1]), dim=1)
    found = every.gather(1, best.indices[..., None].expand(-1, -1, 6))
    nothing = found.new_tensor([-1.0, 0, 0, 0, 0, 0])
    return torch.where(best.values[..., None] > 0, found, nothing)
