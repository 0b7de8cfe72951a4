"""The only room that talks to language models.

Here live the adapters: any provider by its name, and a small model that runs offline. A model is asked one question at a
time and answers with text, tokens and a price; it records nothing and retries nothing, that is the runtime's.
The libraries behind it are extras, imported when a model is opened and not before.
"""
