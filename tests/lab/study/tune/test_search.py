"""The race, where its parts run out."""

import gaf
from gaf.lab.study.tune import search
from gaf.lab.study.tune.budget import plan
from gaf.lab.study.tune.recommend import Candidate, Recommendation
from gaf.lab.study.tune.search import Raced, Search
from tests.lab.engine.tiny import tiny_config
from tests.lab.study.grid_tasks import Here


def test_a_race_ends_where_there_are_no_more_neighbours(tmp_path, monkeypatch):
    asked = []

    def ask(self, count, known):
        asked.append(count)
        assert len(asked) < 3
        return []

    monkeypatch.setattr(search.Neighbours, "ask", ask)
    monkeypatch.setattr(Search, "_scored", lambda self, new, title: [Raced(c, 0.5) for c in new])
    only = Candidate(gaf.Arctan(0.1, 20), "gradient", "recommended")
    advice = Recommendation(only, (), (), False, (0.01, 1.0), (1.0, 100.0))
    racing = Search(tiny_config(), plan(15, 10), tmp_path, Here())
    assert [each.candidate for each in racing._first(advice)] == [only]
    assert len(asked) == 1
