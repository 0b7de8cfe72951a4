"""The embedded judge of claims: what can be checked to the letter, without a model.

- `lexicon`, `units`: the words and units it knows; `quantities`, `dates`, `names`: what it finds in a text;
- `statements`: evidence, cut into what it states; `comparison`: one claim against one statement;
- `check`: the judge.
"""
