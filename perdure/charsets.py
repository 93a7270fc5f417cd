"""Which charset the bytes of a stranger are decoded by: one of those that texts on the web have.

Python knows many more by name, and some of them take a time that grows with the square of the text: 300 KB of
`punycode` take half a minute.
"""

from __future__ import annotations

import codecs

UTF_8 = "utf-8"
_LONGEST = 40
_DECODED = frozenset(
    {
        *(UTF_8, "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "ascii", "koi8-r", "koi8-u", "mac-roman"),
        *(f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))),
        *(f"cp{page}" for page in (437, 850, 852, 866, 874, *range(1250, 1259))),
        *("shift_jis", "cp932", "euc_jp", "iso2022_jp", "gb2312", "gbk", "gb18030", "big5", "euc_kr", "cp949"),
    }
)
"""By the names that Python gives them."""


def charset_in(content_type: str) -> str:
    """The charset that a `Content-Type` names; UTF-8 where it names none, or one that is not decoded."""
    for each in content_type[:1000].split(";")[1:]:
        name, _, value = each.partition("=")
        if name.strip().lower() == "charset":
            return _known(value.strip().strip("\"'"))
    return UTF_8


def _known(name: str) -> str:
    if not name.isascii() or len(name) > _LONGEST:
        return UTF_8
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return UTF_8
    return found if found in _DECODED else UTF_8
