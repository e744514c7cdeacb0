"""HTML and JSON that no text can break out of."""

import html
import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaf.lab.reports.html import escape, join, plotly_text, script_json, tag

NASTY = (
    "<script>alert(1)</script>",
    "</script>",
    "<!--",
    "]]>",
    '"><img src=x onerror=a>',
    "&lt;",
    "'",
)


class Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.attributes = [], "", []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


@pytest.mark.parametrize("text", NASTY)
def test_text_stays_text_everywhere(text):
    found = read(tag("p", text, tag("b", text), title=text))
    assert found.tags == ["p", "b"]
    assert found.text == text * 2
    assert found.attributes == [("title", text)]
    assert read(join([text, tag("br"), text], text)).text == text * 4


def test_markup_is_not_escaped_twice():
    assert tag("p", tag("b", "a & b")) == "<p><b>a &amp; b</b></p>"
    assert escape(escape("<")) == "&lt;"


def test_what_plotly_would_read_is_text():
    assert html.unescape(plotly_text("<b>&amp;")) == "<b>&amp;"
    assert "<" not in plotly_text('<a href="https://example.org">x</a>')


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_comes_back_and_ends_no_script(value):
    text = script_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


@pytest.mark.parametrize("text", NASTY)
def test_json_of_what_is_nasty(text):
    assert json.loads(script_json({text: [text]})) == {text: [text]}
    assert "<" not in script_json({text: [text]})


def test_json_has_no_nan():
    assert (
        script_json([float("nan"), float("inf"), {"a": (-float("inf"), 1.5)}])
        == '[null,null,{"a":[null,1.5]}]'
    )
