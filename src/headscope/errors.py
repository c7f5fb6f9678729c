"""What headscope says when it cannot do what was asked: what was wrong, the values, and the way out."""


class HeadscopeError(Exception):
    """Every error that headscope raises on purpose.

    A note below the message, in a traceback and on the command line, says which page explains its kind. The pages come
    with the package, so that they can be read without a network.
    """

    def __init__(self, *told: object) -> None:
        super().__init__(*told)
        self.add_note(f"more: headscope explain {type(self).__name__}")


class ShapeError(HeadscopeError):
    """Tensors, widths or counts that do not fit together."""


class MaskError(HeadscopeError):
    """A mask that says nothing sensible about these queries and keys."""


class BackendError(HeadscopeError):
    """A backend, asked for by name, that cannot answer this request."""


class ModelError(HeadscopeError):
    """A model that cannot be opened, or that fails its self-check."""


class HeadNameError(HeadscopeError):
    """A head or site that this model does not have."""


class EditError(HeadscopeError):
    """An edit that does not fit the model or the text."""


class InputError(HeadscopeError):
    """Text, a file, or a setting from a person that cannot be used as it is."""
