"""The command for agents: headscope's tools over the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from headscope.cli.options import Model, app


@app.command()
def mcp(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models to open [default: `embedded`, the built-in model].")
    ] = None,
    named: Model = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve over HTTP on this port; 0 is a free one.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to serve over HTTP; other machines need the printed token.")
    ] = "127.0.0.1",
    allow_models: Annotated[
        bool, typer.Option("--allow-models", help="Let the tools open other models, by Hugging Face name or folder.")
    ] = False,
) -> None:
    """Offer headscope's tools to an agent, over the Model Context Protocol.

    Example: headscope mcp smollm2
    """
    from headscope.errors import InputError

    try:
        from headscope.app.mcp import Tools, server
    except ModuleNotFoundError as error:
        raise InputError("agents need the package mcp: pip install 'mcp>=2.3'") from error
    from headscope.app.server import ServeOptions, serve_tools
    from headscope.scope import load

    names = [*(models or ()), *filter(None, [named])] or ["embedded"]
    opened = {name: load(None if name == "embedded" else name) for name in names}
    made = server(Tools(opened, load if allow_models else None))
    if port is None:
        made.run()
    else:
        serve_tools(made.streamable_http_app(host=host), ServeOptions(host=host, port=port or None))
