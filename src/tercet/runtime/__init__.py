"""The entry point of the library: a `Runtime` runs requests with a pack and a journal."""

from tercet.engine.result import RunResult as RunResult
from tercet.runtime.options import RuntimeOptions as RuntimeOptions
from tercet.runtime.runs import Runtime as Runtime
