"""What the sweep runs: odd shapes, dtypes, strides and operators, far from the suite's. Needs PyTorch."""

from . import contractions, drawn, elementwise, movement, reductions, written
from .form import Form

__all__ = ["Form", "drawn", "forms"]


def listed():
    from suite.case import seeded

    for topic in (elementwise, reductions, movement, contractions, written):
        for make in topic.topics:
            yield from make(seeded(0))


def forms(names=(), made=None):
    """Every form of the list, or of `made`, or those whose name contains one of `names`; made one at a time."""
    for form in listed() if made is None else made:
        if not names or any(name in form.name for name in names):
            yield form
