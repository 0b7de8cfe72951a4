"""`decide`: the commands that are due now. Pure: it reads the run and no clock.

Steps that have ended are judged first. Then unknown outcomes are settled, by what the tool declares:

| the tool says           | an unknown outcome                                                        |
|-------------------------|---------------------------------------------------------------------------|
| pure or read_only       | is run again                                                              |
| idempotent              | is run again under the same key                                           |
| reconcile=              | is looked up: found is taken, absent is run again, unknown is asked again |
| nothing                 | opens a gate: only a person may say whether it happened                   |

Then ready steps go out. `phases` holds the rules of each phase, `dispatch` those of steps that are judged and called,
`outcomes` those of unknown outcomes, `compensations` those of calls that undo others, and `progress` what the steps of
a plan mean for each other.
"""

from tercet.core.decide.compensations import needs_approval as needs_approval
from tercet.core.decide.dispatch import MAX_NOTED_BYTES as MAX_NOTED_BYTES
from tercet.core.decide.dispatch import SLOTS as SLOTS
from tercet.core.decide.dispatch import Acting as Acting
from tercet.core.decide.outcomes import MAX_ASKED as MAX_ASKED
from tercet.core.decide.outcomes import can_retry as can_retry
from tercet.core.decide.outcomes import has_retries as has_retries
from tercet.core.decide.outcomes import is_looping as is_looping
from tercet.core.decide.phases import decide as decide
from tercet.core.decide.phases import is_escalated as is_escalated
from tercet.core.decide.phases import is_worn_out as is_worn_out
