"""HTML and JSON that no text can break out of."""

import gzip
import html
import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from gaf.lab.reports.html import (
    PACKAGE,
    PLOTLY,
    breakable,
    digest,
    plotly_text,
    script_json,
    templates,
)

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


def shown(template: str, **values: object) -> str:
    return templates().from_string(template).render(**values)


@pytest.mark.parametrize("text", NASTY)
def test_text_stays_text_everywhere(text):
    found = read(shown('<p title="{{ text }}">{{ text }}<b>{{ text }}</b></p>', text=text))
    assert found.tags == ["p", "b"]
    assert found.text == text * 2
    assert found.attributes == [("title", text)]
    assert read(breakable(f"{text},{text}")).text == f"{text},{text}"
    assert {*read(breakable(text)).tags} <= {"wbr"}


@pytest.mark.parametrize("text", NASTY)
def test_text_stays_text_in_the_parts_of_pages(text):
    """A table, plots and facts, whose macros hand on markup to each other."""
    parts = """{% import "parts.html.jinja" as parts %}
        {{ parts.plain_table((text, text), [(text, text)]) }}{{ parts.facts([(text, text)]) }}
        {{ parts.failures([(text, text)]) }}"""
    found = read(shown(parts, text=text))
    assert found.text.count(text) >= 8
    assert not {"script", "img"} & {*found.tags}
    assert ("aria-label", text) in found.attributes


def test_markup_is_not_escaped_twice():
    inner = shown("<b>{{ text }}</b>", text="a & b")
    assert inner == "<b>a &amp; b</b>"
    twice = '{% macro bold(text) %}<b>{{ text }}</b>{% endmacro %}<p>{{ bold("a & b") }}</p>'
    assert shown(twice) == "<p><b>a &amp; b</b></p>"


def test_a_name_without_a_value_is_an_error():
    with pytest.raises(UndefinedError, match="'missing' is undefined"):
        shown("{{ missing }}")


def test_plotly_is_the_code_that_the_policy_knows():
    code = gzip.decompress((PACKAGE / "plotly" / "plotly.min.js.gz").read_bytes()).decode()
    assert digest(code) == PLOTLY
    assert "MIT License" in (PACKAGE / "plotly" / "LICENSE").read_text("utf-8")


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
