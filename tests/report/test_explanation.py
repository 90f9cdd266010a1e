"""Pictures and pages of explanations hold any name as text."""

import xml.etree.ElementTree as ElementTree

import pytest

from dhilgt.report.explanation import page
from tests.classifier.test_explanation import hand_made
from tests.report.test_report import Tree


@pytest.mark.parametrize("name", ["a\x00b", "a\x1bb", "a\ud800b", "a\uffffb", "]]></svg><!--"])
def test_names_that_xml_cannot_hold_leave_the_picture_well_formed(name):
    explanation = hand_made(name)
    picture = ElementTree.fromstring(explanation.picture())
    assert picture.find("{*}title").text.startswith("What the model saw of ")


def test_the_page_holds_the_picture_and_every_member():
    explanation = hand_made("<script>alert(1)</script>")
    tree = Tree(page(explanation))
    assert len(tree.all("svg")) == 1
    assert len(tree.all("tr")) == 1 + len(explanation.members)
    assert not tree.all("script")
    assert "<script>alert(1)</script> ego 0 blue 0.500" in tree.text
