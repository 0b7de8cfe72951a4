"""The embedded judge of claims: what can be checked to the letter, without a model.

- `lexicon`, `units`: the words and units it knows; `quantities`, `dates`, `names`: what it finds in a text;
- `statements`: evidence, cut into what it states; `comparison`: one claim against one statement;
- `weighing`: what a comparison comes to; `masks`, `index`, `search`: the few statements that a claim is compared with;
- `check`: the judge; `judges`: makes judges that share what they have read.
"""
