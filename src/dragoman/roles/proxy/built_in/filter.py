"""The proxy `filter`: refuses methods, tools and paths by patterns, whoever sends them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from dragoman.engine.codec import json_values
from dragoman.errors import Kind, ProtocolError
from dragoman.policy.patterns import glob_matcher, path_matcher, path_pattern_fault
from dragoman.roles.proxy.built_in.option import ProxyOption
from dragoman.roles.proxy.functions import Passing
from dragoman.roles.proxy.proxy import Forward, Proxy
from dragoman.schema.permission import RequestPermissionParams, RequestPermissionResult, SelectedOutcome
from dragoman.schema.side import Side

OPTIONS = (
    ProxyOption("--method", str, "a pattern of methods to refuse, such as 'terminal/*'", repeated=True),
    ProxyOption("--tool", str, "a pattern of tool names or titles to refuse, such as 'mcp__web__*'", repeated=True),
    ProxyOption("--path", str, "a pattern of paths to refuse, such as '**/.env' or '~/.ssh/**'", repeated=True),
)

# Members of params that name a file or a folder.
_PATH_MEMBERS = ("path", "cwd")

_PROMPT = "session/prompt"

# No session works without these.
_NEEDED = ("initialize", _PROMPT)


def make(method: Sequence[str] = (), tool: Sequence[str] = (), path: Sequence[str] = ()) -> Proxy:
    """Return the proxy."""
    if not (method or tool or path):
        raise ValueError("the proxy filter needs something to refuse: --method, --tool or --path")
    proxy = Proxy("filter")
    methods, tools = [glob_matcher(each) for each in method], [glob_matcher(each) for each in tool]
    is_refused = path_matcher(tuple(path), ("/",), os.path.expanduser("~")) if path else None
    for pattern in path:
        if fault := path_pattern_fault(pattern):
            raise ValueError(f"the proxy filter cannot read --path {pattern!r}: {fault}")
    for name in _NEEDED:
        if any(matches(name) for matches in methods):
            raise ValueError(f"the proxy filter cannot refuse {name}: no session works without it")

    @proxy.on_message
    def check(passing: Passing) -> None:
        if passing.kind not in ("request", "notification"):
            return
        if any(matches(passing.method) for matches in methods):
            raise ProtocolError(Kind.ACCESS_DENIED, f"the filter of this chain refuses {passing.method}")
        if passing.receiver is Side.CLIENT and passing.method.startswith(("fs/", "terminal/")) and is_refused:
            _check_paths(json_values(passing.raw))
        if passing.method.lstrip("_") in ("mcp/message", "mcp/request") and tools:
            _check_mcp(json_values(passing.raw))

    def _check_paths(values: Any) -> None:
        if isinstance(values, list):
            for each in values:
                _check_paths(each)
        if not isinstance(values, dict):
            return
        _check_paths(values.get("files"))
        for member in _PATH_MEMBERS:
            given = values.get(member)
            if isinstance(given, str):
                for form in {os.path.normpath(given), os.path.realpath(given)}:
                    if is_refused is not None and is_refused(form):
                        raise ProtocolError(Kind.ACCESS_DENIED, f"the filter of this chain refuses {given}")

    def _check_mcp(values: Any) -> None:
        # Both: the peer decides which of them it reads.
        for inner in (values.get("params"), values.get("mcpParams")) if isinstance(values, dict) else ():
            name = inner.get("name") if isinstance(inner, dict) else None
            if isinstance(name, str) and any(matches(name) for matches in tools):
                raise ProtocolError(Kind.ACCESS_DENIED, f"the filter of this chain refuses the tool {name}")

    if tools:

        @proxy.from_agent("session/request_permission")
        async def ask(
            params: RequestPermissionParams, forward: Forward[RequestPermissionResult]
        ) -> RequestPermissionResult:
            call = params.tool_call
            names = [value for value in (getattr(call, "name", None), call.title) if isinstance(value, str)]
            if not any(matches(name) for matches in tools for name in names):
                return await forward(params)
            rejects = [option.option_id for option in params.options if str(option.kind).startswith("reject")]
            if not rejects:
                raise ProtocolError(Kind.PERMISSION_DENIED, f"the filter of this chain refuses the tool {names[0]}")
            return RequestPermissionResult(outcome=SelectedOutcome(option_id=rejects[0]))

    return proxy
