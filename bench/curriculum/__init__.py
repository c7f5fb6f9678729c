"""Generated training text in which the behaviours that papers name pay; one file per kind of text."""
