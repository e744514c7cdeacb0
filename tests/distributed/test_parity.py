"""Several processes train to the weights of one, and send each other what torch sends, no byte more."""

import pytest

from tests.distributed.configs import CONFIGS
from tests.distributed.launch import launch

TOLERANCE = 1e-6  # observed: 2.4e-7 (tensor parallel, 3 processes), in weights that moved by 0.36
STEPS = 3
FLOAT = 4  # bytes


def judge(found, processes, kinds):
    for kind in kinds:
        each = found[kind]
        wrong = {name: error for name, error in each["errors"].items() if not error <= TOLERANCE}
        assert not wrong, (kind, wrong)
        assert set(each["errors"]) <= {config.name for config in CONFIGS}
        assert each["moved"] > 0.1
        assert each["sent"] == each["sent by torch"], kind
    # The count is not blind: DDP sums every gradient once a step, and DDP and ZeRO-1 need no more to clip.
    for kind in {"ddp", "zero1"} & set(kinds):
        each = found[kind]
        assert each["sent"]["c10d::allreduce_"] == STEPS * FLOAT * each["parameters"]
        assert each["sent with clipping"] == each["sent"]
    # Where gradients are sharded, clipping by norm sums the squares over the processes.
    for kind in {"fsdp2", "tensor"} & set(kinds):
        more = sum(found[kind]["sent with clipping"].values()) - sum(found[kind]["sent"].values())
        assert more > 0
        assert more % (STEPS * len(found[kind]["errors"]) * FLOAT) == 0  # so many numbers each
    if "fsdp2" in kinds:
        assert found["fsdp2"]["empty"] == 2 * len(found["fsdp2"]["errors"])  # the last layers


def judge_edges(found, processes):
    assert set(found["partial"]) == {config.name for config in CONFIGS}
    for name, said in found["partial"].items():
        assert "Partial placement is a sum still to be made" in said, name
    assert len(found["nonfinite"]["said"]) == processes
    for said in found["nonfinite"]["said"]:
        assert "a gradient holds inf or NaN" in said
    assert found["nonfinite"]["sent"] == {"c10d::allreduce_": 4}
    assert all(difference <= 1e-6 for difference in found["monitor"].values()), found["monitor"]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_every_optimizer_and_kind_of_parallelism(tmp_path, processes):
    kinds = ("ddp", "fsdp2", "tensor", "zero1")
    found = launch("parity", processes, tmp_path, ",".join(kinds), "edges")
    judge(found, processes, kinds)
    assert all(len(found[kind]["errors"]) == len(CONFIGS) for kind in kinds)
    judge_edges(found["edges"], processes)
