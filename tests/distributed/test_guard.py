"""One decision of all processes, for one number a step; inside backward, sharded models train alike."""

import pytest

from tests.distributed.guard import OPTIMIZERS, STEPS
from tests.distributed.launch import launch


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_processes_decide_alike_and_shards_step_inside_backward(tmp_path, processes):
    found = launch("guard", processes, tmp_path)
    for name in ("plain", "plain, by found_inf", "shards"):
        one = found[name]
        assert one["alike"], name
        assert one["right"], name
        assert one["bad"] > 5
        assert one["taken"] == STEPS - one["bad"], name
        assert one["sent"] == {"c10d::allreduce_": 8 * STEPS}, name  # one float64 a step
    for name in OPTIMIZERS:
        one = found["fsdp2"][name]
        assert one["same"], name
        assert one["gradients after backward"] == [6, 0], name
    assert len(found["ddp"]) == 2
    for sentence in found["ddp"]:
        assert "before its gradient is averaged over the processes" in sentence
