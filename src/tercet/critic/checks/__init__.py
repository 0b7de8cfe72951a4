"""The checks of a review, one module per subject."""
