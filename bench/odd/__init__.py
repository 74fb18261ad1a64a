"""What the sweep runs: odd shapes, dtypes, strides and operators, far from the suite's. Needs PyTorch."""

from . import contractions, drawn, elementwise, movement, reductions, written
from .form import Form

__all__ = ["Form", "drawn", "forms"]


def forms(names=()):
    """Every form, or those whose name contains one of `names`; each with its topic, made one at a time."""
    from suite.case import seeded

    for topic in (elementwise, reductions, movement, contractions, written):
        for make in topic.topics:
            for form in make(seeded(0)):
                if not names or any(name in form.name for name in names):
                    yield form
