"""Adapters for language models: any provider by its name, and a small model that runs offline.

Only this package talks to models. A model gets one question at a time and returns text, tokens and a price; recording
and retries are up to the runtime. The libraries behind it are extras, imported when a model is opened.
"""
