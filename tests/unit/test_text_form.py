"""Encoding and separator of a file of text, told from its first bytes."""

import pytest

from biasgp.data.csv_text import text_form

LINES = "time;value\n2026-01-01;1,5\n2026-01-02;2,5\n"


@pytest.mark.parametrize(
    ("head", "sep", "encoding", "found"),
    [
        (LINES.encode(), None, None, ("utf-8", ";")),
        (LINES.encode("utf-16"), None, None, ("utf-16", ";")),
        (b"\xef\xbb\xbf" + LINES.encode(), None, None, ("utf-8", ";")),
        ("größe\t1\n2\t3\n".encode("cp1252"), None, "cp1252", ("cp1252", "\t")),
        (("ü" * 40).encode()[:-1] + b",1\n2,3\n", None, None, ("utf-8", ",")),
        (b"sep=|\na|b\n1|2\n", None, None, ("utf-8", "|")),
        (b"a b\n1 2\n", "space", None, ("utf-8", " ")),
        (b"a,b\n", "ab", None, (None, None)),
        (b"a,b\n", None, "no-such", (None, None)),
        (b"PAR1....", None, None, (None, None)),
        (b"PK\x03\x04....", None, None, (None, None)),
    ],
)
def test_form(head, sep, encoding, found):
    assert text_form(head, sep, encoding) == found
