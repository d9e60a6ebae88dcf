import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { mcpInspector } from '../../../scripts/engines/inspector.ts'
import { pythonMcp, pythonMcpVersions } from '../../../scripts/engines/python-mcp.ts'
import { migratedFolder, startServe } from './serve.fixture.ts'
import { cleanEnvironment, node, shell } from './spawn.fixture.ts'

/** Lists and calls the tools of the default configuration with third-party clients, as installed by their users. */
interface Call {
  readonly name: string
  readonly arguments: { readonly [name: string]: unknown }
  /** Expected failures of the tool. */
  readonly fails?: true
  /** The least number of characters of the structured content. */
  readonly structured?: number
}

interface Seen {
  readonly isError: boolean
  readonly structured: number | null
  readonly types: readonly string[]
}

const large = (characters: number): string => `return "x".repeat(${characters})`

const calls: readonly Call[] = [
  { name: 'demo__add', arguments: { a: 5, b: 3 }, structured: 10 },
  { name: 'demo__countdown', arguments: { from: 2, delayMs: 1 } },
  { name: 'demo__echo', arguments: { value: 'x'.repeat(1_000) }, structured: 1_000 },
  { name: 'demo__echo', arguments: { value: 'x'.repeat(70_000) }, structured: 70_000 },
  { name: 'demo__fail', arguments: { message: 'on purpose' }, fails: true },
  { name: 'demo__sleep', arguments: { ms: 1 } },
  { name: 'code__program', arguments: { language: 'javascript', code: large(70_000) } },
  { name: 'code__run', arguments: { language: 'javascript', code: large(1_000) }, structured: 1_000 },
  { name: 'code__run', arguments: { language: 'javascript', code: large(70_000) } },
  { name: 'code__run', arguments: { language: 'javascript', code: large(5_000_000) } },
  { name: 'code__session', arguments: { action: 'list' }, fails: true },
  { name: 'shell__run', arguments: { script: 'echo hello' }, structured: 10 },
  { name: 'shell__run', arguments: { script: 'head -c 70000 /dev/zero | tr "\\0" x' } },
  { name: 'http__fetch', arguments: { url: 'https://example.com/' }, fails: true },
  { name: 'kb__add', arguments: { text: 'Cranes lift loads.' } },
  { name: 'kb__search', arguments: { query: 'cranes' } },
  { name: 'kb__get', arguments: { id: 'none' }, fails: true },
  { name: 'kb__remove', arguments: { id: 'none' } },
  { name: 'files__put', arguments: { name: 'a.txt', content: 'hello' }, structured: 10 },
  { name: 'files__list', arguments: {} },
  { name: 'files__info', arguments: { id: 'none' }, fails: true },
  { name: 'files__get', arguments: { id: 'none' }, fails: true },
  { name: 'files__remove', arguments: { id: 'none' } },
  { name: 'artifacts__read', arguments: { id: 'none' }, fails: true },
  { name: 'artifacts__search', arguments: { id: 'none', query: 'x' }, fails: true },
]

async function openService(t: TestContext) {
  const folder = await migratedFolder(t)
  const serve = startServe(t, folder)
  const url = `${await serve.ready}/mcp`
  const key = readFileSync(join(folder, '.gantry', 'key'), 'utf8').trim()
  return { folder, url, key, requestInit: { headers: { authorization: `Bearer ${key}` } } }
}

function check(who: string, tools: readonly string[], results: readonly Seen[]): void {
  assert.deepEqual([...new Set(calls.map(({ name }) => name))].sort(), [...tools].sort(), `${who} lists every tool`)
  for (const [at, { name, fails = false, structured = 0 }] of calls.entries()) {
    const result = results[at]
    assert.equal(result?.isError, fails, `${who} calls ${name} (${at}): ${JSON.stringify(result)}`)
    assert.ok((result?.structured ?? 0) >= structured, `${who} gets what ${name} gives: ${JSON.stringify(result)}`)
  }
}

type AnyClient = Pick<OldClient, 'listTools' | 'callTool'> | Pick<Client, 'listTools' | 'callTool'>

async function useClient(who: string, client: AnyClient): Promise<void> {
  const { tools } = await client.listTools()
  const results: Seen[] = []
  for (const { name, arguments: args } of calls) {
    const { isError, structuredContent, content } = await client.callTool({ name, arguments: args })
    const types = (content as readonly { readonly type: string }[]).map(({ type }) => type)
    const structured = structuredContent === undefined ? null : JSON.stringify(structuredContent).length
    results.push({ isError: isError === true, structured, types })
  }
  check(
    who,
    tools.map(({ name }) => name),
    results,
  )
}

// One service for all clients: its start takes longer than most of them.
test('third-party clients use the MCP endpoint of one service', async (t) => {
  const { folder, url, key, requestInit } = await openService(t)

  await t.test(
    'clients of SDK 1.x and 2.x list and call every tool of the default configuration, with outputs up to 5 MB',
    async (t) => {
      const old = new OldClient({ name: 'test', version: '1' })
      t.after(() => old.close())
      await old.connect(new OldTransport(new URL(url), { requestInit }) as never)
      await useClient('SDK 1.x', old)
      const now = new Client({ name: 'test', version: '1' })
      t.after(() => now.close())
      await now.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
      await useClient('SDK 2.x', now)
    },
  )

  await t.test(
    'the Python SDK 1.x and 2.x lists and calls every tool of the default configuration, with outputs up to 5 MB',
    async () => {
      for (const version of pythonMcpVersions) {
        const environment = { PYTHONPATH: await pythonMcp(version), PYTHONDONTWRITEBYTECODE: '1' }
        const child = spawn('/usr/bin/python3', [join(import.meta.dirname, 'mcp-clients.fixture.py')], {
          env: cleanEnvironment({ folder, cache: join(folder, '.cache'), environment }),
        })
        child.stdin.end(JSON.stringify({ url, key, calls }))
        const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
        assert.ok(out.startsWith('{'), err)
        const { tools, results } = JSON.parse(out) as { readonly tools: readonly string[]; readonly results: Seen[] }
        check(`Python ${version}`, tools, results)
      }
    },
  )

  await t.test('the inspector lists and calls tools with outputs up to 5 MB', async () => {
    const inspector = await mcpInspector()
    const look = (method: string) =>
      shell(
        `"$node" ${inspector} --cli ${url} --transport http --header "Authorization: Bearer ${key}" --method ${method}`,
        { folder, cache: join(folder, '.cache'), environment: { node } },
      )
    const listed = await look('tools/list')
    assert.equal(listed.code, 0, listed.err)
    assert.equal(JSON.parse(listed.out).tools.length, new Set(calls.map(({ name }) => name)).size)
    for (const characters of [1_000, 70_000, 5_000_000]) {
      const called = await look(
        `tools/call --tool-name code__run --tool-arg language=javascript --tool-arg 'code=${large(characters)}'`,
      )
      assert.equal(called.code, 0, called.err)
      assert.notEqual(JSON.parse(called.out).isError, true)
    }
  })
})
