"""A cache that is bounded in bytes."""

from __future__ import annotations

from perdure.activities.bounded_cache import BoundedCache


def filled(max_bytes: int, **sizes: int) -> BoundedCache[str, str]:
    cache = BoundedCache[str, str](max_bytes)
    for key, size in sizes.items():
        cache.put(key, key.upper(), size)
    return cache


def held(cache: BoundedCache[str, str]) -> str:
    return "".join(key for key in "abcdef" if key in cache)


def test_holds_what_fits() -> None:
    cache = filled(10, a=5, b=5)
    assert (held(cache), cache.bytes, len(cache)) == ("ab", 10, 2)
    assert cache.get("a") == "A"


def test_forgets_what_was_not_used_for_the_longest_time() -> None:
    cache = filled(10, a=4, b=4)
    cache.get("a")
    cache.put("c", "C", 4)
    assert (held(cache), cache.bytes) == ("ac", 8)


def test_forgets_as_many_as_it_must() -> None:
    cache = filled(10, a=2, b=2, c=2, d=2)
    cache.put("e", "E", 7)
    assert (held(cache), cache.bytes) == ("de", 9)


def test_what_is_too_large_displaces_nothing() -> None:
    cache = filled(10, a=4, b=11)
    assert (held(cache), cache.bytes) == ("a", 4)


def test_a_value_that_has_grown_is_counted_anew() -> None:
    cache = filled(10, a=4, b=4)
    cache.put("a", "A", 6)
    assert (held(cache), cache.bytes) == ("ab", 10)
    cache.put("a", "A", 11)
    assert (held(cache), cache.bytes) == ("b", 4)


def test_gives_up_a_value() -> None:
    cache = filled(10, a=4)
    assert cache.pop("a") == "A"
    assert cache.pop("a") is None
    assert (cache.get("a"), cache.bytes) == (None, 0)


def test_without_room_nothing_is_held() -> None:
    cache = filled(0, a=1)
    assert (held(cache), cache.bytes) == ("", 0)
