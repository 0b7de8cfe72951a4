"""The entry point of the library: a `Runtime` holds a pack, a journal and a clock; all that a run is, is in the journal."""

from tercet.engine.result import RunResult as RunResult
from tercet.runtime.options import RuntimeOptions as RuntimeOptions
from tercet.runtime.runs import Runtime as Runtime
