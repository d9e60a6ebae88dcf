import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { Identity, JsonObject, Replay, Result, Tool } from '@gantry/contract'
import { type DefinedTool, defineTool, http } from '@gantry/core'
import { grpc } from '@gantry/grpc'
import { mcp } from '@gantry/mcp'
import { noBubblewrap } from '../../conformance/src/sandbox-test.ts'
import { samplePath, startSample } from '../../grpc/src/server.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator, type ServiceSite } from './service-site.fixture.ts'
import { node } from './spawn.fixture.ts'

const never = new AbortController().signal
const open = { type: 'object' } as const
const replayOf = (site: ServiceSite, callId: string, as = operator): Promise<Replay> =>
  site.service.replay(callId, as, never)

/** A tool `t:<name>` that appends each call to the ledger. */
function noting(
  ledger: string[],
  name: string,
  rest: JsonObject = {},
  answer?: (args: JsonObject) => unknown,
): DefinedTool {
  const { inputSchema = open, ...more } = rest as Partial<Tool>
  return defineTool({
    namespace: 't',
    name,
    version: '1.0.0',
    description: 'A tool of a test.',
    inputSchema,
    ...more,
    run(args, { send }) {
      ledger.push(`${name} ${JSON.stringify(args)}`)
      send({ from: name })
      return answer === undefined ? { said: args } : answer(args as JsonObject)
    },
  })
}

const effects = ['read', 'keyed', 'reconcilable', 'once', 'repeatable'] as const

test('replays on PGlite', async (t) => {
  const ledger: string[] = []
  const tools = [
    ...effects.map((effect) => noting(ledger, effect, { effect })),
    noting(ledger, 'add', { effect: 'read' }, ({ a, b }) => Number(a) + Number(b)),
    noting(ledger, 'fail', { effect: 'once' }, () => {
      throw new TypeError('It broke.')
    }),
    noting(ledger, 'large', { effect: 'read', outputSchema: { type: 'array' }, output: 'strict' }, () =>
      Array.from({ length: 20_000 }, (_, n) => n),
    ),
    noting(ledger, 'text', { effect: 'read' }, () => 'x'.repeat(200_000)),
  ]
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const { database } = site

  for (const effect of effects) {
    await t.test(
      `a replay of a call with effect ${effect} has the same result, and does not run its tool`,
      async () => {
        const { callId } = await site.call(`t:${effect}`, { n: 1 })
        const before = await everything(database)
        ledger.length = 0
        const replay = await replayOf(site, callId)
        assert.deepEqual([replay.same, replay.decision, replay.warnings], [true, 'allow', []])
        assert.deepEqual((replay.result as Result).output, { said: { n: 1 } })
        assert.deepEqual(ledger, [])
        assert.deepEqual(changed(before, await everything(database)), { audit: 1 })
      },
    )
  }

  await t.test('the audit log has an entry for each replay with the principal that requested it', async () => {
    const { callId } = await site.call('t:read', {})
    await replayOf(site, callId)
    const rows = await database.query(
      `select phase, tool, principal from gantry.audit where call_id = $1 and phase = 'admin'`,
      [callId],
    )
    assert.deepEqual(rows, [{ phase: 'admin', tool: 'calls.replay', principal: 'operator' }])
  })

  await t.test('a replay of a failed call has the same failure', async () => {
    const { callId, outcome } = await site.call('t:fail', {})
    ledger.length = 0
    const replay = await replayOf(site, callId)
    assert.equal(outcome.status, 'failed')
    assert.deepEqual([replay.same, replay.result.status], [true, 'failed'])
    assert.deepEqual(replay.differences, [])
    assert.deepEqual(ledger, [])
  })

  await t.test('a call with offloaded arguments or an offloaded result replays with the same result', async () => {
    const long = 'y'.repeat(200_000)
    const asked = await site.call('t:read', { long })
    const large = await site.call('t:large', {})
    const text = await site.call('t:text', {})
    assert.ok('spilled' in (large.outcome.output as JsonObject))
    const files = (await database.query('select 1 from gantry.artifacts')).length
    ledger.length = 0
    for (const { callId } of [asked, large, text]) {
      const { same, differences, warnings } = await replayOf(site, callId)
      assert.deepEqual({ same, differences, warnings }, { same: true, differences: [], warnings: [] })
    }
    assert.deepEqual(ledger, [])
    assert.equal((await database.query('select 1 from gantry.artifacts')).length, files)
  })

  await t.test('a chain replays from the results of its steps, including parallel groups and forEach', async () => {
    const { callId, outcome } = await site.chain(
      [
        { id: 'sum', tool: 't:add', args: { a: '{{input.a}}', b: 2 } },
        { id: 'each', tool: 't:once', forEach: [1, 2, 3], args: { item: '{{item}}' }, concurrency: 2 },
        {
          id: 'both',
          parallel: [
            { id: 'left', tool: 't:keyed', args: { sum: '{{steps.sum.output}}' } },
            { id: 'right', tool: 't:fail', onError: { output: 'survived' } },
          ],
        },
        { id: 'last', tool: 't:repeatable', usePrevious: true },
      ],
      { a: 5 },
    )
    assert.equal(outcome.status, 'ok')
    const before = await everything(database)
    ledger.length = 0
    const replay = await replayOf(site, callId)
    assert.deepEqual([replay.same, replay.decision, replay.divergence], [true, 'allow', undefined])
    assert.deepEqual(replay.result.output, outcome.output)
    assert.deepEqual(ledger, [])
    assert.deepEqual(changed(before, await everything(database)), { audit: 1 })
  })

  await t.test('a replay of a chain ends at a step without a recorded result, and does not run it', async () => {
    const { callId } = await site.chain([
      { id: 'one', tool: 't:once', args: { n: 1 } },
      { id: 'two', tool: 't:once', args: { n: 2 }, onError: 'continue' },
      { id: 'three', tool: 't:once', args: { n: 3 } },
    ])
    await database.query(`delete from gantry.journal where call_id = $1 and entry = 'two'`, [callId])
    await database.query(
      `update gantry.results set result = jsonb_set(result::jsonb, '{steps,1,results}', '[]')::text where call_id = $1`,
      [callId],
    )
    ledger.length = 0
    const replay = await replayOf(site, callId)
    assert.equal(replay.same, false)
    assert.deepEqual([replay.divergence?.step, replay.divergence?.tool], ['two', 't:once'])
    assert.match(replay.divergence?.reason ?? '', /not on record/)
    assert.equal(replay.result.status, 'cancelled')
    assert.deepEqual(ledger, [])
  })

  await t.test('a cancelled chain replays up to the step where it was cancelled', async () => {
    const gate = Promise.withResolvers<void>()
    const waits = defineTool({
      namespace: 't',
      name: 'waits',
      version: '1.0.0',
      description: 'Waits.',
      inputSchema: open,
      effect: 'read',
      run: (_args, { signal }) => {
        gate.resolve()
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    })
    await site.configure({ tools: [...tools, waits] })
    const steps = [{ tool: 't:once' }, { tool: 't:waits', onError: 'continue' }, { tool: 't:once' }]
    const { callId } = await site.service.submit({ kind: 'chain', args: { steps } }, operator)
    await gate.promise
    await site.service.cancel(callId, operator)
    await site.service.wait(callId, operator, 20_000, never)
    ledger.length = 0
    const replay = await replayOf(site, callId)
    assert.deepEqual([replay.result.status, replay.divergence], ['cancelled', undefined])
    assert.deepEqual(ledger, [])
  })

  await t.test(
    'a replay warns of a changed or removed tool, and shows the outcome under the current definition',
    async () => {
      const { callId } = await site.call('t:read', { n: 1 })
      const { callId: chain } = await site.chain([
        { id: 'a', tool: 't:read' },
        { id: 'b', tool: 't:once' },
      ])
      const stricter = { type: 'object', properties: { n: { type: 'string' } } }
      await site.configure({ tools: [noting(ledger, 'read', { effect: 'read', inputSchema: stricter })] })
      ledger.length = 0
      const refused = await replayOf(site, callId)
      assert.deepEqual([refused.same, refused.decision], [false, 'none'])
      assert.deepEqual(
        [refused.warnings[0]?.code, (refused.result as Result).error?.code],
        ['CATALOG_STALE', 'INPUT_INVALID'],
      )
      assert.deepEqual(refused.differences[0], { path: '/status', before: 'ok', after: 'failed' })
      const [gone] = [await replayOf(site, chain)]
      assert.equal(gone.result.error?.code, 'TOOL_NOT_FOUND')
      assert.equal(gone.decision, 'none')
      await site.configure({ tools: [] })
      const absent = await replayOf(site, callId)
      assert.equal((absent.result as Result).error?.code, 'TOOL_NOT_FOUND')
      assert.match(absent.warnings[0]?.message ?? '', /no longer exists/)
      assert.deepEqual(ledger, [])
      await site.configure({ tools })
    },
  )

  await t.test('a replay applies the current policy to the original caller, and asks for no approval', async () => {
    const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: ['files:read'] }
    const { callId } = await site.call('t:once', {}, bob)
    ledger.length = 0
    await site.configure({
      tools,
      policy: { rules: [{ allow: '*' }, { deny: 't:once', to: 'bob', reason: 'Not bob.' }] },
    })
    const denied = await replayOf(site, callId)
    assert.deepEqual([denied.decision, denied.result.status, denied.same], ['deny', 'denied', false])
    await site.configure({ tools, policy: { rules: [{ allow: '*' }, { ask: 't:once', reason: 'Ask.' }] } })
    const asked = await replayOf(site, callId)
    assert.deepEqual([asked.decision, asked.same], ['ask', true])
    assert.deepEqual(await database.query('select 1 from gantry.approvals'), [])
    assert.deepEqual(ledger, [])
    await site.configure({ tools })
  })

  await t.test(
    'a replay of a chain ends at a step that was denied then and is allowed now, and runs nothing',
    async () => {
      const deny = { rules: [{ allow: '*' }, { deny: 't:once', reason: 'Closed.' }] } as const
      await site.configure({ tools, policy: deny })
      const { callId } = await site.chain([
        { id: 'a', tool: 't:once', onError: 'continue' },
        { id: 'b', tool: 't:read' },
      ])
      await site.configure({ tools })
      ledger.length = 0
      const replay = await replayOf(site, callId)
      assert.deepEqual([replay.divergence?.step, replay.same], ['a', false])
      assert.deepEqual(ledger, [])
    },
  )

  await t.test('a call of another tenant or one that has not ended cannot be replayed', async () => {
    const { callId } = await site.call('t:read', {})
    await assert.rejects(replayOf(site, callId, { ...operator, tenant: 'blue' }), { code: 'NOT_FOUND' })
    await assert.rejects(replayOf(site, 'nope'), { code: 'NOT_FOUND' })
    const { callId: later } = await site.service.submit(
      { kind: 'call', tool: 't:read', args: {}, delayMs: 3_600_000 },
      operator,
    )
    await assert.rejects(replayOf(site, later), { code: 'INPUT_INVALID' })
  })

  await t.test('a replay does not resolve an output that imitates a reference to another call’s file', async () => {
    const { outcome } = await site.call('t:large', {}, { ...operator, tenant: 'blue' })
    const { spilled } = outcome.output as { spilled: JsonObject }
    const { callId } = await site.call('t:forge', { spilled }).catch(() => ({ callId: '' }))
    assert.equal(callId, '')
    await site.configure({
      tools: [
        ...tools,
        noting(ledger, 'forge', { effect: 'read' }, ({ spilled: s }) => ({ spilled: s }) as JsonObject),
      ],
    })
    const forged = await site.call('t:forge', { spilled })
    const replay = await replayOf(site, forged.callId)
    assert.deepEqual((replay.result as Result).output, { spilled })
  })
})

test('a replay calls no backend, starts no sandbox and fetches no secret', async (t) => {
  const hits: string[] = []
  const server = createServer((request, response) => {
    hits.push(`${request.method} ${request.url}`)
    response.setHeader('content-type', 'application/json').end('{"from":"far"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const calculator = await startSample()
  t.after(() => calculator.close())
  const address = `grpc://127.0.0.1:${calculator.port}`
  const about = { version: '1.0.0', description: 'A tool of a test.', inputSchema: open } as const
  const far: Tool = {
    ...about,
    namespace: 'far',
    name: 'get',
    effect: 'read',
    backends: [{ kind: 'http', name: 'far', path: '/get' }],
  }
  const box: Tool = {
    ...about,
    namespace: 'box',
    name: 'run',
    effect: 'once',
    backends: [{ kind: 'sandboxed', language: 'javascript', code: 'return { lot: Math.random() }' }],
  }
  const site = await openServiceSite(t, pgliteDatabase, {
    tools: [asDefined(far), asDefined(box)],
    backends: [
      http({ name: 'far', baseUrl: origin, auth: { type: 'bearer', token: 'secret:TOKEN' } }),
      mcp({ name: 'lines', command: [node, '-e', lineServer, origin] }),
      grpc({ name: 'calc', address, proto: samplePath, private: true }),
    ],
    secrets: {
      async get(name: string) {
        hits.push(`secret ${name}`)
        return 'a secret of some length'
      },
    },
    egress: { allow: [origin, `http://127.0.0.1:${calculator.port}`].map((one) => ({ origin: one, private: true })) },
    runtimes: { pool: false },
  })
  const calls = {
    http: await site.call('far:get', {}),
    mcp: await site.call('lines:read', {}),
    grpc: await site.call('calc:Calculator.Add', { a: 1, b: 2 }),
    ...(noBubblewrap === undefined ? { sandbox: await site.call('box:run', {}) } : {}),
  }
  for (const [kind, { outcome }] of Object.entries(calls)) {
    assert.equal(outcome.status, 'ok', `${kind} ${JSON.stringify(outcome.error)}`)
  }
  // Control: the calls themselves reached every backend and fetched the secret.
  for (const hit of ['GET /get', 'secret TOKEN', 'POST /tools/call']) assert.ok(hits.includes(hit), hit)
  assert.equal(calculator.seen.length, 1)
  hits.length = 0
  for (const [kind, { callId, outcome }] of Object.entries(calls)) {
    const replay = await replayOf(site, callId)
    assert.deepEqual([replay.same, replay.differences], [true, []], kind)
    // The random number of the sandbox is the recorded one, not a new one.
    assert.deepEqual((replay.result as Result).output, outcome.output, kind)
  }
  assert.deepEqual(hits, [])
  assert.equal(calculator.seen.length, 1)
})

/** An MCP server that posts to a web server at every tool call. */
const lineServer = `
const { createInterface } = require('node:readline')
const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  if (method === 'initialize') say({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } } })
  else if (method === 'tools/list') say({ id, result: { tools: [{ name: 'read', description: 'Reads.', inputSchema: { type: 'object' } }] } })
  else if (method === 'tools/call') {
    await fetch(process.argv[1] + '/tools/call', { method: 'POST' })
    say({ id, result: { content: [{ type: 'text', text: 'done' }] } })
  } else say({ id, error: { code: -32601, message: 'Method not found' } })
})`

function asDefined(tool: Tool): DefinedTool {
  return { tool, run: undefined, input: undefined, output: undefined, lookup: undefined }
}

type Counts = { readonly [table: string]: number }

/** The number of rows of every table. */
async function everything(database: ServiceSite['database']): Promise<Counts> {
  const names = await database.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'gantry' and tablename not in ('workers', 'migrations', 'audit_seals')`,
  )
  const counts = await Promise.all(
    names.map(async ({ name }) => {
      const [row] = await database.query<{ n: number }>(`select count(*)::int as n from gantry.${name}`)
      return [name, row?.n ?? 0] as const
    }),
  )
  return Object.fromEntries(counts)
}

function changed(before: Counts, after: Counts): Counts {
  return Object.fromEntries(
    Object.entries(after).flatMap(([name, n]) => (n === before[name] ? [] : [[name, n - (before[name] ?? 0)]])),
  )
}
