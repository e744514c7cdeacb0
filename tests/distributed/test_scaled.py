"""gaf.Scaled on sharded tensors: the size is the whole tensor's, for one number a tensor that is sent."""

import pytest

from tests.distributed.launch import launch
from tests.distributed.scaled import ROWS, RULES

NUMBERS = 8 * len(ROWS)  # bytes: a float64 a tensor


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_shards_and_replicas_step_as_the_whole_tensor_does(tmp_path, processes):
    found = launch("scaled", processes, tmp_path)
    for name in RULES:
        for layout in ("sharded", "replicas"):
            case = found[f"{name}, {layout}"]
            assert case["apart"] < 1e-6, (name, layout, case)  # float32's own
            assert case["sent"] == {"c10d::allreduce_": NUMBERS}, (name, layout)
