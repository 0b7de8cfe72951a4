"""What `check` looks for, one small function per question.

A check takes the parts of a pack and yields a problem for each defect. It is pure, and it keeps quiet where a file
could not be read and it cannot know.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tercet.contracts.problem import Problem
from tercet.packs.parts import Parts

Problems: TypeAlias = Iterator[Problem]
Check: TypeAlias = Callable[[Parts], Problems]
