"""What detection costs beside the network: matching and loss in a step, then decoding and suppression.

The network is that of the small recipe. Images, objects and outputs are random; with these outputs every
class has its 200 candidates, which is the most that suppression can get to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from rich.console import Console, Group

import gaf
from gaf.lab.bench import machine
from gaf.lab.bench.targets import verdict
from gaf.lab.bench.timing import Spread, ratio, sheet, spread, timed

CLASSES, MOST_OBJECTS = 20, 8  # in an image of VOC there are 2.4 on average
SHARE = 0.10  # of a training step that matching and loss may take
SECONDS = 0.100  # that decoding and suppression of an image may take
STEP, LOSS, DETECT = (
    "training step",
    "matching and loss in it",
    "decoding and suppression, an image",
)


def measure(repeats: int, console: Console) -> dict[str, Any]:
    """Seconds of a training step, of its matching and loss with their gradients, and of the detections."""
    from gaf.lab.study.recipes.tables import VOC_BATCH, VOC_WIDTH
    from gaf.lab.tasks.detection.boxes import detect
    from gaf.lab.tasks.detection.loss import NOTHING, match, multibox_loss
    from gaf.lab.tasks.models import build

    torch.manual_seed(0)
    model = build("ssd300", classes=CLASSES, width=VOC_WIDTH).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    defaults = model.defaults
    optimizer = gaf.SGD(model.parameters(), lr=1e-4, momentum=0.9, activation="arctan(0.1, 20)")
    images = torch.randn(VOC_BATCH, 3, 300, 300).contiguous(memory_format=torch.channels_last)
    start, side = torch.rand(2, VOC_BATCH, MOST_OBJECTS, 2)
    boxes = torch.cat((start * 0.5, start * 0.5 + 0.05 + side * 0.45), dim=-1)
    counts = torch.randint(1, MOST_OBJECTS + 1, (VOC_BATCH, 1))
    labels = torch.randint(CLASSES, (VOC_BATCH, MOST_OBJECTS))
    labels[torch.arange(MOST_OBJECTS) >= counts] = NOTHING
    outputs = [
        torch.randn(VOC_BATCH, len(defaults), n, requires_grad=True) for n in (CLASSES + 1, 4)
    ]

    def lossy(logits: torch.Tensor, numbers: torch.Tensor) -> None:
        matches = match(labels, boxes, defaults)
        multibox_loss(logits, numbers, matches, defaults).mean().backward()

    def step() -> None:
        optimizer.zero_grad()
        lossy(*model(images))
        optimizer.step()

    def loss() -> None:
        for output in outputs:
            output.grad = None
        lossy(*outputs)

    @torch.no_grad()
    def detections() -> None:
        detect(outputs[0][:1], outputs[1][:1], defaults)

    others = machine.Others()
    steps = {STEP: step, LOSS: loss, DETECT: detections}
    seconds = timed(console, "detection", steps, repeats=repeats, shortest=0.0)
    return {
        **machine.facts(),
        "batch": VOC_BATCH,
        "width": VOC_WIDTH,
        "limits": {"share": SHARE, "seconds": SECONDS},
        "others": others.share(),
        "seconds": {name: asdict(spread(times)) for name, times in seconds.items()},
        "share": asdict(ratio(seconds[LOSS], seconds[STEP])),
    }


def table(record: Mapping[str, Any]) -> Group:
    """What was measured, for people."""
    share, others = Spread(**record["share"]), record["others"]
    times = {name: Spread(**figures) for name, figures in record["seconds"].items()}
    few = verdict(share.median <= SHARE, others)
    quick = verdict(times[DETECT].median < SECONDS, others)
    notes = {
        STEP: ("", "", ""),
        LOSS: (f"{share:.1%}", f"{SHARE:.0%}", few),
        DETECT: ("", f"{1000 * SECONDS:.0f} ms", quick),
    }
    shown = sheet(
        f"SSD300 at width {record['width']:g}, batch {record['batch']}",
        ("what", "milliseconds", "of the step", "at most", "verdict"),
        ((name, f"{times[name].times(1000):.1f}", *cells) for name, cells in notes.items()),
        caption=f"medians of {share.n} interleaved repetitions (10 % to 90 %)",
    )
    return Group(machine.line(record), shown)
