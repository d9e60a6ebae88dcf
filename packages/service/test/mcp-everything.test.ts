import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { mcpInspector } from '../../../scripts/engines/inspector.ts'
import { migratedFolder, startServe } from './serve.fixture.ts'
import { bin, type Ended, node, shell } from './spawn.fixture.ts'

const modules = join(dirname(import.meta.dirname), '..', '..', 'node_modules')
const everything = join(modules, '@modelcontextprotocol', 'server-everything', 'dist', 'index.js')

/** A service with the everything server as its backend, whose MCP endpoint lists only that server's tools. */
async function openGateway(t: TestContext) {
  const folder = await migratedFolder(t)
  const config = {
    backends: [{ kind: 'mcp', name: 'every', command: [node, everything] }],
    mcp: { namespace: 'every' },
    builtins: false,
  }
  writeFileSync(join(folder, 'gantry.config.json'), JSON.stringify(config))
  const serve = startServe(t, folder)
  const url = await serve.ready
  const { value } = await serve.get('/v1/tools')
  assert.ok(value)
  return { folder, url, serve }
}

async function connect(t: TestContext, transport: Parameters<Client['connect']>[0]): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(transport)
  t.after(() => client.close())
  return client
}

/** Every tool except `get-env`, whose environment differs on purpose, and `simulate-research-query`, which requires a task. */
const calls: { readonly [name: string]: { readonly [argument: string]: unknown } } = {
  echo: { message: 'hello' },
  'get-sum': { a: 2, b: 3 },
  'get-tiny-image': {},
  'get-annotated-message': { messageType: 'error', includeImage: true },
  'get-resource-links': { count: 2 },
  'get-resource-reference': { resourceType: 'Blob', resourceId: 2 },
  'get-structured-content': { location: 'New York' },
  'trigger-long-running-operation': { duration: 0.1, steps: 2 },
  'gzip-file-as-resource': { name: 'a.gz', data: 'data:text/plain,hello', outputType: 'resource' },
  'toggle-simulated-logging': {},
  'toggle-subscriber-updates': {},
}

test('tools of the everything server have the same definitions and results through the gateway as directly', {
  timeout: 120_000,
}, async (t) => {
  const { folder, url } = await openGateway(t)
  const { readFileSync } = await import('node:fs')
  const key = readFileSync(join(folder, '.gantry', 'key'), 'utf8').trim()
  const headers = { authorization: `Bearer ${key}` }
  const through = await connect(
    t,
    new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }),
  )
  const directly = await connect(t, new StdioClientTransport({ command: node, args: [everything], stderr: 'ignore' }))
  const [ours, theirs] = [await through.listTools(), await directly.listTools()]
  const plain = ({ tools }: typeof ours) =>
    tools
      .map(({ name, title, description, inputSchema, outputSchema, annotations }) => ({
        name,
        title,
        description,
        inputSchema,
        outputSchema,
        annotations,
      }))
      .sort((a, b) => a.name.localeCompare(b.name))
  assert.deepEqual(plain(ours), plain(theirs))
  assert.deepEqual(
    theirs.tools.map(({ name }) => name).filter((name) => !(name in calls)),
    ['get-env', 'simulate-research-query'],
  )
  for (const [name, args] of Object.entries(calls)) {
    const [here, there] = [
      await through.callTool({ name, arguments: args }),
      await directly.callTool({ name, arguments: args }),
    ]
    assert.deepEqual(
      { content: withoutTimes(here.content), structured: here.structuredContent, isError: here.isError },
      { content: withoutTimes(there.content), structured: there.structuredContent, isError: there.isError },
      name,
    )
  }
  const wrong = await through.callTool({ name: 'get-sum', arguments: { a: 'x' } })
  assert.equal(wrong.isError, true)

  // The inspector over both transports.
  const inspector = await mcpInspector()
  const look = (target: string): Promise<Ended> =>
    shell(`"$node" ${inspector} --cli ${target}`, { folder, cache: join(folder, '.cache') })
  for (const target of [`${node} ${bin} mcp`, `${url}/mcp --transport http --header "Authorization: Bearer ${key}"`]) {
    const listed = await look(`${target} --method tools/list`)
    assert.equal(listed.code, 0, listed.err)
    assert.equal(JSON.parse(listed.out).tools.length, theirs.tools.length)
    const called = await look(`${target} --method tools/call --tool-name get-sum --tool-arg a=2 --tool-arg b=3`)
    assert.equal(called.code, 0, called.err)
    assert.equal(JSON.parse(called.out).content[0].text, 'The sum of 2 and 3 is 5.')
  }
})

/** Removes the creation times of resources. */
function withoutTimes(content: unknown): unknown {
  return JSON.parse(JSON.stringify(content).replaceAll(/\d+:\d+:\d+ [AP]M/g, 'then'), (key, value) =>
    key === 'blob' ? 'bytes' : value,
  )
}
