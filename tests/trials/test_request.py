"""``trial.json`` is data from a file: what does not fit is refused in one sentence."""

import json

import pytest

from gaf.common.errors import GafError
from gaf.trials.request import REQUEST, Request, read_request


def test_what_is_written_is_read_back(tmp_path):
    asked = {"seed": 1000, "score_on": "validation", "factor": 3.0, "rule": "adam", "lr": 0.001}
    (tmp_path / REQUEST).write_text(json.dumps(asked))
    assert read_request(tmp_path) == Request(**asked)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[]", "is damaged"),
        ("{", "is damaged"),
        ('{"sed": 1}', "unknown key 'sed'; did you mean 'seed'?"),
        ('{"seed": -1}', "seed cannot be -1"),
        ('{"seed": true}', "seed cannot be True"),
        ('{"seed": 1.0}', "seed cannot be 1.0"),
        ('{"factor": 0}', "factor cannot be 0"),
        ('{"factor": "3"}', "factor cannot be '3'"),
        ('{"lr": NaN}', "lr cannot be nan"),
        ('{"lr": -1}', "lr cannot be -1"),
        ('{"score_on": "train"}', "score_on cannot be 'train'"),
        ('{"rule": 3}', "rule cannot be 3"),
        ('{"centralize": 1}', "centralize cannot be 1"),
        ('{"arguments": []}', "arguments cannot be []"),
        ('{"arguments": {"lr": 1}}', "arguments cannot be {'lr': 1}"),
        ('{"arguments": {"activation": "tanh"}}', "arguments cannot be"),
        ('{"activation": "arctn(1, 2)"}', "did you mean 'arctan'?"),
        ('{"activation": "arctan", "placement": "gradinet"}', "did you mean 'gradient'?"),
        ('{"placement": "gradient"}', "placement and control need an activation"),
        ('{"clip_norm": 1, "normalize": 1}', "not two"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(tmp_path, content, complaint):
    (tmp_path / REQUEST).write_text(content)
    with pytest.raises(GafError) as refused:
        read_request(tmp_path)
    assert str(tmp_path / REQUEST) in str(refused.value)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_file(tmp_path):
    with pytest.raises(GafError, match="cannot be read"):
        read_request(tmp_path)
