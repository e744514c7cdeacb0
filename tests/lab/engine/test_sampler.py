"""Each sample once an epoch, whatever the number of processes and parts; weights that make one mean."""

import pytest
import torch

from gaf.lab.engine.rng import Sampler, evaluation_indices


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
@pytest.mark.parametrize("accumulate", [1, 2, 4])
@pytest.mark.parametrize("samples", [16, 17, 33, 1])
def test_an_epoch_has_each_sample_once_and_weights_make_the_mean(samples, accumulate, processes):
    values = torch.arange(samples, dtype=torch.float64) ** 2
    seen = []
    for number in range(Sampler(samples, 8, False, seed=3).steps):
        total = 0.0
        for rank in range(processes):
            sampler = Sampler(samples, 8, False, 3, accumulate, rank, processes)
            batch = sampler.epoch(5)[number]
            parts = sampler.parts(batch)
            for part in parts:
                assert len(part.indices) > 0
                total += part.weight * values[part.indices].mean() / processes
                if part.weight:
                    seen += part.indices.tolist()
        assert total == pytest.approx(values[batch].mean())
    assert sorted(seen) == list(range(samples))


@pytest.mark.parametrize("accumulate", [1, 3])
def test_all_processes_have_as_many_parts(accumulate):
    for samples in (1, 2, 9):
        counts = {
            len(Sampler(samples, 9, False, 0, accumulate, rank, 4).parts(torch.arange(samples)))
            for rank in range(4)
        }
        assert len(counts) == 1


def test_the_order_depends_on_seed_and_epoch():
    orders = {
        (seed, epoch): tuple(torch.cat(Sampler(50, 8, False, seed).epoch(epoch)).tolist())
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(set(orders.values())) == 9
    assert orders[1, 2] == tuple(torch.cat(Sampler(50, 16, False, 1).epoch(2)).tolist())


def test_drop_last_leaves_the_rest_out():
    assert [len(each) for each in Sampler(20, 8, True, 0).epoch(0)] == [8, 8]
    assert [len(each) for each in Sampler(20, 8, False, 0).epoch(0)] == [8, 8, 4]


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
@pytest.mark.parametrize("samples", [1, 4, 23, 24])
def test_evaluation_covers_the_set_in_order_and_in_step(samples, processes):
    ranks = [evaluation_indices(samples, 6, rank, processes) for rank in range(processes)]
    assert len({tuple(len(each) for each in rank) for rank in ranks}) == 1
    together = torch.stack([torch.cat(rank) for rank in ranks], dim=1).flatten()[:samples]
    assert together.tolist() == list(range(samples))
