"""Problems as worlds of the simulator: belief and tables as a dialogue would build them."""

from balar_core.belief import Belief
from balar_core.simulation import World
from balar_core.space import StateSpace
from balar_core.tables import LikelihoodTables

from .problem_schema import Problem, rows_of

__all__ = ["problem_world"]


def problem_world(problem: Problem, *, bucketed: bool = True) -> World:
    """The world of a problem: its first dimensions and questions, before anything is asked.

    Args:
        problem: the problem.
        bucketed: pad to capacities, so that the worlds of similar problems can be stacked.

    Raises:
        StateSpaceTooLarge: more states than the settings of the problem allow.

    >>> from .problem import load_packaged
    >>> problem_world(load_packaged("headache")).tables.valid.sum().item()
    8
    """
    settings = problem.setup().settings
    dimensions = tuple(entry.core for entry in problem.dimensions)
    space = StateSpace(dimensions, max_states=settings.max_states)
    priors = [entry.prior_row for entry in problem.dimensions]
    users = [user.name for user in problem.users]
    tables = {}
    for q, question in enumerate(problem.questions):
        for u, user in enumerate(users):
            given = question.tables_for(user)
            if question.ask is None or user in question.ask:
                tables[q, u] = [rows_of(given.get(d.name), d) for d in dimensions]
    return World(
        Belief.from_priors(space, priors, labels=settings.labels, bucketed=bucketed),
        LikelihoodTables.build(
            space,
            [len(question.choices) for question in problem.questions],
            tables,
            users=len(users),
            labels=settings.labels,
            noise=settings.noise,
            bucketed=bucketed,
            names=[question.text for question in problem.questions],
            user_names=users,
        ),
    )
