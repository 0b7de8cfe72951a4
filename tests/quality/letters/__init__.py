"""Letters in fifteen locales that the judgement of outputs was developed on; `python -m quality.letters` prints figures."""
