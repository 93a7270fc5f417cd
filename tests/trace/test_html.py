"""The page of a trace: what it shows, that nothing in it acts, and that its size is bounded."""

from __future__ import annotations

from html.parser import HTMLParser

from perdure.trace.html import to_html

from ..support.made_traces import Made, a_refund

NASTY = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'></script><!--"


class Read(HTMLParser):
    """The tags and the texts of a page, as a browser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_spans_and_messages_are_there_and_nothing_acts() -> None:
    page = to_html(a_refund(NASTY + "\ud800"), NASTY)
    read = Read(page)
    assert not read.tags & {"script", "img", "link", "a"}
    assert "default-src 'none'" in page
    assert page.count("<summary>") == 14
    assert NASTY in read.text
    assert "Refund one of the two charges only." in read.text
    assert "\\u202e" in read.text
    assert page.count('class="wait"') == 1


def test_the_page_has_each_message_once() -> None:
    """A page whose size grew with the square of the conversation could not be opened for long
    runs.
    """
    assert to_html(a_refund("a question"), "run-1").count("Customer 4417") == 1


def test_a_run_that_has_not_ended_and_one_without_spans() -> None:
    made = Made()
    root = made.add("invoke_agent clerk", 0, None)
    made.add("wait approval pay", 2, None, root)
    assert "so far" in to_html(made.spans, "run-1")
    assert "There are no spans" in to_html([], "run-1")
