"""The product space: counting, indexing, the two-dimensional layout, and its limits."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import Belief, Dimension, StateSpace, joint
from balar_core.errors import InvalidDimension, StateSpaceTooLarge
from balar_core.space import bucket, flat_index, make_layout, split_dimensions

from .strategies import space_of

SIZES = st.lists(st.integers(2, 5), min_size=1, max_size=5).map(tuple)


@given(sizes=SIZES, bucketed=st.booleans())
def test_layout_holds_every_state_exactly_once(sizes: tuple[int, ...], bucketed: bool) -> None:
    layout = make_layout(sizes, bucketed=bucketed)
    flat = np.asarray(layout.row_index)[:, None] + np.asarray(layout.column_index)[None, :]
    mask = np.asarray(layout.mask)
    assert sorted(flat[mask]) == list(range(math.prod(sizes)))
    digits = np.maximum(
        np.asarray(layout.row_digits)[:, None, :], np.asarray(layout.column_digits)[None, :, :]
    )
    states = list(itertools.product(*map(range, sizes)))
    for index, found in zip(flat[mask], digits[mask], strict=True):
        assert tuple(found[: len(sizes)]) == states[index]
        assert (found[len(sizes) :] == -1).all()
    assert np.asarray(layout.value_mask).sum(axis=1)[: len(sizes)].tolist() == list(sizes)


@given(sizes=SIZES)
def test_index_and_state_are_inverse(sizes: tuple[int, ...]) -> None:
    space = space_of(sizes)
    for index, digits in enumerate(itertools.product(*map(range, sizes))):
        assert flat_index(digits, sizes) == index
        assert space.index(space.state(index)) == index


@given(sizes=SIZES)
def test_split_is_as_square_as_any(sizes: tuple[int, ...]) -> None:
    total = math.prod(sizes)

    def difference(rows: int) -> int:
        return abs(rows - total // rows)

    found = math.prod(s for s, row in zip(sizes, split_dimensions(sizes), strict=True) if row)
    subsets = itertools.product([0, 1], repeat=len(sizes))
    best = min(
        difference(math.prod(s**b for s, b in zip(sizes, bits, strict=True))) for bits in subsets
    )
    assert difference(found) == best


def test_spaces_of_similar_size_share_their_shapes() -> None:
    shapes = {
        tuple(x.shape for x in (layout.row_digits, layout.column_digits, layout.value_mask))
        for layout in (make_layout(s, bucketed=True) for s in [(2, 3), (4, 4), (2, 2, 3), (3,) * 4])
    }
    assert len(shapes) == 1


@pytest.mark.parametrize(
    ("sizes", "count", "memory"),
    [
        ((5,) * 22, "2,384,185,791,015,625", "8.5 PiB"),
        ((4,) * 20, "1,099,511,627,776", "4.0 TiB"),
    ],
)
def test_space_beyond_the_cap_is_refused_before_anything_is_made(
    sizes: tuple[int, ...], count: str, memory: str
) -> None:
    with pytest.raises(StateSpaceTooLarge, match=count) as caught:
        space_of(sizes)
    words = str(caught.value)
    assert memory in words and "50,000" in words and "raise max_states" in words


def test_states_are_counted_beyond_machine_integers() -> None:
    dimensions = tuple(Dimension(f"d{j}", tuple("abcd")) for j in range(40))
    assert StateSpace(dimensions, max_states=4**40).size == 4**40


def test_states_that_cannot_be_numbered_are_refused_before_anything_is_made() -> None:
    dimensions = tuple(Dimension(f"d{j}", tuple("abcd")) for j in range(16))
    space = StateSpace(dimensions, max_states=4**16)
    with pytest.raises(StateSpaceTooLarge, match=r"4,294,967,296 joint states .* 2,147,483,647"):
        space.layout()


def test_cap_is_inclusive() -> None:
    dimensions = (Dimension("a", ("x", "y")), Dimension("b", ("x", "y", "z")))
    assert StateSpace(dimensions, max_states=6).size == 6
    with pytest.raises(StateSpaceTooLarge):
        StateSpace(dimensions, max_states=5)


@pytest.mark.parametrize("bucketed", [False, True])
def test_many_dimensions_need_no_axis_of_their_own(bucketed: bool) -> None:
    space = space_of((2,) * 15)
    random = np.random.default_rng(0)
    priors = random.dirichlet(np.ones(2), 15)
    belief = Belief.from_priors(space, priors, bucketed=bucketed)
    assert belief.log_joint.ndim == 2
    state = random.integers(2, size=15)
    expected = math.prod(float(p[v]) for p, v in zip(priors, state, strict=True))
    assert joint(belief, space)[tuple(state)] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("dimensions", "words"),
    [
        ((), "at least one"),
        ((Dimension("a", ("x", "y")), Dimension("A", ("x", "y"))), "Dimensions 0 and 1"),
        (("a",), "not a Dimension"),
    ],
)
def test_spaces_that_cannot_be_are_refused(dimensions: tuple[Dimension, ...], words: str) -> None:
    with pytest.raises(InvalidDimension, match=words):
        StateSpace(dimensions)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"cause": "a"}, "no value for 'place'"),
        ({"cause": "a", "place": "x", "time": "t"}, "no dimension 'time'"),
        ({"cause": "b", "place": "z"}, "'z' is not a value of 'place'"),
    ],
)
def test_states_that_do_not_exist_are_refused(state: dict[str, str], words: str) -> None:
    space = StateSpace.of(cause=["a", "b"], place=["x", "y"])
    with pytest.raises(InvalidDimension, match=words):
        space.index(state)


@pytest.mark.parametrize("index", [-1, 4])
def test_flat_index_outside_the_space_is_refused(index: int) -> None:
    with pytest.raises(InvalidDimension, match=f"State {index} does not exist"):
        space_of((2, 2)).state(index)


@given(n=st.integers(0, 10_000), smallest=st.integers(1, 16), ratio=st.integers(2, 4))
def test_bucket_is_the_smallest_rung_that_holds(n: int, smallest: int, ratio: int) -> None:
    capacity = bucket(n, smallest, ratio)
    assert capacity >= n
    assert capacity == smallest or capacity // ratio < n
