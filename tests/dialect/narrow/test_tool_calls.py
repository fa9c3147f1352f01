"""Tool calls member by member, and their contents, for clients that know a start and whole lists."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialect.narrow.client import NarrowClient, content, text

PATCH = """diff --git /w/new /w/new
new file mode 100644
--- /dev/null
+++ /w/new
@@ -0,0 +1,2 @@
+one
+two
\\ No newline at end of file
diff --git /w/edited /w/edited
--- /w/edited
+++ /w/edited
@@ -1,2 +1,2 @@
-a
+A
 b
@@ -9,2 +9,2 @@
 y
-z
+Z
diff --git /w/gone /w/gone
deleted file mode 100644
--- /w/gone
+++ /dev/null
@@ -1 +0,0 @@
-last words
diff --git /w/from /w/to
rename from /w/from
rename to /w/to
--- /w/from
+++ /w/to
@@ -1 +1 @@
-p
+q
diff --git /w/logo.png /w/logo.png
Binary files /w/logo.png and /w/logo.png differ
"""


def call(client: NarrowClient, **members: Any) -> list[Any]:
    return client.update("tool_call_update", toolCallId="c", **members)


def client_with_call() -> NarrowClient:
    client = NarrowClient()
    call(client, title="Read", status="in_progress")
    return client


def progress(**members: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c", **members}


def test_the_first_sight_of_a_call_is_its_start() -> None:
    client = NarrowClient()
    assert call(client, title="Read", name="read", kind="read", status="pending", rawInput={"path": "x"}) == [
        {
            "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read", "name": "read", "kind": "read",
            "status": "pending", "rawInput": {"path": "x"},
        }
    ]  # fmt: skip
    assert call(client, status="completed") == [progress(status="completed")]


@pytest.mark.parametrize(("members", "title"), [({"name": "grep"}, "grep"), ({}, "c")])
def test_a_call_without_a_title_is_called_by_its_name_or_id(members: dict[str, Any], title: str) -> None:
    [start] = call(NarrowClient(), **members)
    assert start["title"] == title


def test_a_name_that_comes_later_is_the_title_until_there_is_one() -> None:
    client = NarrowClient()
    call(client)
    assert call(client, name="grep") == [progress(name="grep", title="grep")]
    assert call(client, title="Search") == [progress(title="Search")]
    assert call(client, clear=["title"]) == [progress(title="grep")]


def test_removed_members_get_neutral_values() -> None:
    client = client_with_call()
    names = ["content", "locations", "status", "kind", "title"]
    assert call(client, clear=names) == [progress(content=[], locations=[], status="pending", kind="other", title="c")]
    assert client.losses() == []
    assert call(client, clear=["rawInput", "rawOutput", "name"]) == []
    assert client.losses() == ["cleared_member"]


def test_states_and_kinds_that_a_client_lacks_get_the_nearest() -> None:
    client = client_with_call()
    assert call(client, status="paused") == [progress(status="in_progress")]
    assert call(client, status="_frozen") == [progress(status="in_progress")]
    assert call(client, status="cancelled", kind="_dance") == [progress(status="cancelled", kind="other")]
    assert call(client, capabilities={"cancel": {}}) == []
    assert client.losses() == ["paused", "tool_status _frozen", "tool_kind _dance", "cancel_tool_call"]


def test_meta_of_a_call_passes() -> None:
    assert call(client_with_call(), _meta={"x": 1}) == [progress(_meta={"x": 1})]


@pytest.mark.item("V2-22")
def test_contents_one_by_one_come_as_a_whole_list_a_moment_later() -> None:
    client = client_with_call()
    for word in ("one", "two"):
        assert client.update("tool_call_content_chunk", toolCallId="c", content=content(word)) == []
    assert client.narrowing.pending("s") == ["content"]
    assert client.wait() == [progress(content=[content("one"), content("two")])]
    assert client.wait() == []
    assert client.narrowing.pending("s") == []


def test_a_change_of_the_status_brings_the_contents_along_and_others_do_not() -> None:
    client = client_with_call()
    client.update("tool_call_content_chunk", toolCallId="c", content=content("one"))
    assert call(client, title="Still", status="in_progress") == [progress(title="Still", status="in_progress")]
    assert call(client, status="completed") == [progress(status="completed", content=[content("one")])]
    assert client.wait() == []


def test_a_content_of_an_unknown_call_starts_it() -> None:
    client = NarrowClient()
    assert client.update("tool_call_content_chunk", toolCallId="c", content=content("one")) == [
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "c", "content": [content("one")]}
    ]


def test_a_start_of_a_known_call_begins_anew() -> None:
    client = client_with_call()
    client.update("tool_call_content_chunk", toolCallId="c", content=content("old"))
    [start] = client.update("tool_call", toolCallId="c", title="Again")
    assert start == {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Again"}
    assert client.wait() == []


def test_a_burst_of_contents_costs_bytes_in_proportion() -> None:
    """Sending the whole list for each of n contents would cost n squared."""
    client = client_with_call()
    sent = 0
    for number in range(1000):
        updates = client.update("tool_call_content_chunk", toolCallId="c", content=content(f"line {number}"))
        if number % 250 == 249:
            updates += client.wait()
        sent += sum(len(update["content"]) for update in updates)
    assert sent == 250 + 500 + 750 + 1000


@pytest.mark.item("V2-23")
def test_a_patch_becomes_diffs() -> None:
    client = NarrowClient()
    changes = [
        {"operation": "add", "path": "/w/new", "mimeType": "text/plain"},
        {"operation": "modify", "path": "/w/edited", "fileType": "text"},
        {"operation": "delete", "path": "/w/gone"},
        {"operation": "move", "path": "/w/to", "oldPath": "/w/from"},
        {"operation": "modify", "path": "/w/logo.png", "fileType": "binary"},
        {"operation": "add", "path": "/w/folder", "fileType": "directory"},
    ]
    wide = {"type": "patch", "changes": changes, "patch": {"format": "git_patch", "text": PATCH}}
    [start] = call(client, title="Edit", content=[wide])
    assert start["content"] == [
        {"type": "diff", "path": "/w/new", "oldText": None, "newText": "one\ntwo"},
        {"type": "diff", "path": "/w/edited", "oldText": "a\nb\n", "newText": "A\nb\n"},
        {"type": "diff", "path": "/w/edited", "oldText": "y\nz\n", "newText": "y\nZ\n"},
        {
            "type": "diff", "path": "/w/gone", "oldText": "last words\n", "newText": "",
            "_meta": {"dragoman": {"operation": "delete"}},
        },
        content("moved /w/to (renamed from /w/from)"),
        {"type": "diff", "path": "/w/to", "oldText": "p\n", "newText": "q\n"},
        content("modified (binary) /w/logo.png"),
        content("added (directory) /w/folder"),
    ]  # fmt: skip
    assert [place["path"] for place in start["locations"]] == [change["path"] for change in changes]
    assert client.losses() == ["patch", "mime_type", "file_operation"]


def test_locations_of_the_agent_stay() -> None:
    client = NarrowClient()
    call(client, locations=[{"path": "/w/a", "line": 3}])
    wide = {"type": "patch", "changes": [{"operation": "delete", "path": "/w/b"}]}
    assert call(client, content=[wide]) == [progress(content=[content("deleted /w/b")])]


@pytest.mark.parametrize("format", ["_other", "git_patch"])
def test_a_patch_that_cannot_be_read_is_shown_as_it_is(format: str) -> None:
    changes = [{"operation": "modify", "path": "/w/a"}]
    wide = {"type": "patch", "changes": changes, "patch": {"format": format, "text": "?\n"}}
    [start] = call(NarrowClient(), content=[wide])
    assert start["content"] == [content("modified /w/a"), content("````diff\n?\n````")]


def test_a_patch_with_relative_paths_is_found() -> None:
    patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    change = {"operation": "modify", "path": "/work/x.py"}
    wide = {"type": "patch", "changes": [change], "patch": {"format": "git_patch", "text": patch}}
    [start] = call(NarrowClient(), content=[wide])
    assert start["content"] == [{"type": "diff", "path": "/work/x.py", "oldText": "a\n", "newText": "b\n"}]


def test_contents_of_unknown_types_are_named() -> None:
    client = NarrowClient()
    chart = {"type": "content", "content": {"type": "_chart"}}
    [start] = call(client, content=[{"type": "_map", "zoom": 3}, chart, content("x")])
    assert start["content"] == [content("[_map]"), content("[_chart]"), content("x")]
    assert client.losses() == ["unknown_content _map", "unknown_content _chart"]


def test_diffs_and_terminals_of_the_client_pass() -> None:
    items = [
        {"type": "diff", "path": "/w/a", "oldText": None, "newText": "x"},
        {"type": "terminal", "terminalId": "t"},
        {"type": "content", "content": text("x")},
    ]
    [start] = call(NarrowClient(), content=items)
    assert start["content"] == items
