"""Errors that headscope raises on purpose. Messages say what is wrong, with the values, and what to do instead."""


class HeadscopeError(Exception):
    """Base class of all errors that headscope raises on purpose.

    A note after the message, in tracebacks and on the command line, names the page that explains the error. The pages
    are part of the package and can be read offline.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(f"more: headscope explain {type(self).__name__}")


class ShapeError(HeadscopeError):
    """Tensors, widths or counts that do not fit together."""


class MaskError(HeadscopeError):
    """A mask that does not fit its queries and keys, or that is ambiguous."""


class BackendError(HeadscopeError):
    """A backend that does not exist, or that cannot run this request."""


class ModelError(HeadscopeError):
    """A model that cannot be opened, or that fails its self-check."""


class HeadNameError(HeadscopeError):
    """A head or site that this model does not have."""


class EditError(HeadscopeError):
    """An edit that does not fit the model or the text."""


class InputError(HeadscopeError):
    """A text, file or setting from the user that cannot be used."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 200 characters; the error's name without a message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
