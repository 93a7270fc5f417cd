"""The rooms of perdure stand one above the other: imports go down, never up and never round."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

from .house import (
    LAYERS,
    NEVER,
    PACKAGE,
    WITHOUT,
    imports,
    imports_inside,
    layer_of,
    listed,
    modules,
    room_of,
    rooms,
)


def test_every_room_has_its_place() -> None:
    placed = {room for layer in LAYERS for room in layer}
    assert rooms() - placed == set(), (
        "place these folders in LAYERS (tests/repository/house.py) and in CONTRIBUTING.md"
    )
    assert placed - rooms() == set(), (
        "these rooms are gone: remove them from LAYERS and from CONTRIBUTING.md"
    )


def test_imports_go_down() -> None:
    upward = [
        f"{found}, but {theirs} does not lie below {ours}"
        for found in imports_inside()
        if (ours := room_of(found.importer)) != (theirs := room_of(found.imported))
        and (not theirs or layer_of(theirs) >= layer_of(ours))
    ]
    assert not upward, listed(
        "move what both need into a lower room, or hand it over as an argument", upward
    )


def test_some_rooms_do_not_know_others_below_them() -> None:
    met = [
        str(found)
        for found in imports_inside()
        if room_of(found.imported) in NEVER.get(room_of(found.importer), ())
    ]
    assert not met, listed(
        "say it in perdure/protocol or in the core, where both rooms can read it", met
    )


@pytest.mark.parametrize("room", sorted(WITHOUT))
def test_rooms_do_without_some_libraries(room: str) -> None:
    used = [
        str(found)
        for found in imports()
        if room_of(found.importer) == room and found.imported.partition(".")[0] in WITHOUT[room]
    ]
    assert not used, listed(
        f"WITHOUT (house.py) keeps these out of {room}: let a room above do this part", used
    )


def test_no_file_imports_itself_through_others() -> None:
    graph: dict[str, set[str]] = {}
    for found in imports_inside():
        graph.setdefault(found.importer, set()).add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " imported by ".join(error.args[1])
        pytest.fail(f"{circle}: move what two of them need into a third, or name it by a Protocol")


def test_the_tree_was_read() -> None:
    assert len(modules()) > 100
    assert len(imports()) > 500
    assert (PACKAGE / "loop" / "loop.py") in modules().values()
