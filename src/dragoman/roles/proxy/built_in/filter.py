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

# Tool calls whose names are remembered as refused. Beyond that, a question that does not name its tool is refused.
_MAX_REFUSED = 100_000

# No session works without these.
_NEEDED = ("initialize", _PROMPT)


class _RefusedTools:
    """Finds the permission requests of the tools to refuse, also those that name their tool by the id of the call."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [glob_matcher(each) for each in patterns]
        self._calls: set[int] = set()  # hashes of session and id

    def matches(self, names: Sequence[Any]) -> bool:
        """Return whether one of the names is that of a tool to refuse."""
        return any(matches(name) for matches in self._patterns for name in names if isinstance(name, str))

    def note_update(self, values: Any) -> None:
        """Remember the call that an update names."""
        update = values.get("update") if isinstance(values, dict) else None
        if not isinstance(update, dict) or len(self._calls) >= _MAX_REFUSED:
            return
        if self.matches([update.get("name"), update.get("title")]):
            self._calls.add(hash((str(values.get("sessionId")), str(update.get("toolCallId")))))

    def refused_name(self, params: RequestPermissionParams) -> str:
        """Return the name of the tool if the request is to be refused; otherwise ""."""
        call = params.tool_call
        names = [value for value in (getattr(call, "name", None), call.title) if isinstance(value, str) and value]
        is_known = hash((params.session_id, call.tool_call_id)) in self._calls
        if is_known or self.matches(names) or (not names and len(self._calls) >= _MAX_REFUSED):
            return (*names, call.tool_call_id)[0] or "without a name"
        return ""


def make(method: Sequence[str] = (), tool: Sequence[str] = (), path: Sequence[str] = ()) -> Proxy:
    """Return the proxy."""
    if not (method or tool or path):
        raise ValueError("the proxy filter needs something to refuse: --method, --tool or --path")
    proxy = Proxy("filter")
    methods, tools = [glob_matcher(each) for each in method], _RefusedTools(tool)
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
        if passing.method.lstrip("_") in ("mcp/message", "mcp/request") and tool:
            _check_mcp(json_values(passing.raw))
        if passing.method == "session/update" and tool:
            tools.note_update(json_values(passing.raw))

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
            if tools.matches([name]):
                raise ProtocolError(Kind.ACCESS_DENIED, f"the filter of this chain refuses the tool {name}")

    if tool:

        @proxy.from_agent("session/request_permission")
        async def ask(
            params: RequestPermissionParams, forward: Forward[RequestPermissionResult]
        ) -> RequestPermissionResult:
            name = tools.refused_name(params)
            if not name:
                return await forward(params)
            rejects = [option.option_id for option in params.options if str(option.kind).startswith("reject")]
            if not rejects:
                raise ProtocolError(Kind.PERMISSION_DENIED, f"the filter of this chain refuses the tool {name}")
            return RequestPermissionResult(outcome=SelectedOutcome(option_id=rejects[0]))

    return proxy
