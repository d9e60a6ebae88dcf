"""Lists and calls tools as the Python SDK of MCP does, 1.x or 2.x, and prints what came back as JSON.

Reads {"url", "key", "calls": [{"name", "arguments"}]} from standard input.
"""
import asyncio
import json
import sys


def seen(result):
    """What the test compares: whether it failed, how long the structured content and the text are."""
    structured = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
    failed = getattr(result, "isError", None) or getattr(result, "is_error", None) or False
    return {
        "isError": bool(failed),
        "structured": None if structured is None else len(json.dumps(structured, separators=(",", ":"))),
        "types": [block.type for block in result.content],
    }


async def use(session, plan):
    listed, cursor = [], None
    while True:
        page = await session.list_tools(cursor=cursor) if cursor else await session.list_tools()
        listed += [tool.name for tool in page.tools]
        cursor = getattr(page, "nextCursor", None) or getattr(page, "next_cursor", None)
        if not cursor:
            break
    results = [seen(await session.call_tool(call["name"], call["arguments"])) for call in plan["calls"]]
    print(json.dumps({"tools": listed, "results": results}))


async def main():
    plan = json.load(sys.stdin)
    headers = {"Authorization": f"Bearer {plan['key']}"}
    from mcp.client.streamable_http import streamable_http_client

    try:
        from mcp import Client
        from mcp.shared._httpx_utils import create_mcp_http_client
    except ImportError:
        import httpx
        from mcp import ClientSession

        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            async with streamable_http_client(plan["url"], http_client=http) as (read, write, *_):
                async with ClientSession(read, write) as session:
                    await session.initialize()
                    await use(session, plan)
        return
    async with create_mcp_http_client(headers=headers) as http:
        async with Client(streamable_http_client(plan["url"], http_client=http)) as client:
            await use(client, plan)


asyncio.run(main())
