"""`rlax`, imported quietly: what it imports warns about itself, and warnings are errors here."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import rlax

__all__ = ["rlax"]
