import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Identity, JsonObject, Result } from '@gantry/contract'
import { type DefinedTool, defineTool } from '@gantry/core'
import { approvalRecords } from '../src/storage/approvals/approvals.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase, postgresDatabase } from './databases.fixture.ts'
import { openServiceSite, operator, type ServiceSite } from './service-site.fixture.ts'

const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: ['gantry:approve'] }
const never = new AbortController().signal
const number = { type: 'number', description: 'A number' } as const

/** The tool of one deploy; its output names the deploy. */
function tool(deploy: string, given: { version?: string; description?: string; input?: JsonObject } = {}): DefinedTool {
  const { version = '1.0.0', description = 'Doubles a number.', input = { n: number } } = given
  return defineTool({
    namespace: 'my',
    name: 'double',
    version,
    description,
    effect: 'once',
    inputSchema: { type: 'object', properties: input, required: ['n'] },
    run: (args) => ({ deploy, doubled: Number((args as JsonObject).n) * 2 }),
  })
}

interface Fleet {
  /** Starts a process of a deploy on the one database. */
  start(tools: readonly DefinedTool[], roles: string[], service?: JsonObject): Promise<ServiceSite>
}

/** Processes that share a database, as in a rolling deploy. */
async function openFleet(t: TestContext): Promise<Fleet> {
  const { url } = await postgresDatabase(t)
  const open = async (t: TestContext): Promise<Database> => {
    const database = await openPostgres({ url })
    t.after(() => database.close())
    return database
  }
  return {
    start: (tools, roles, service = {}) => openServiceSite(t, open, { tools }, { roles, leaseMs: 60_000, ...service }),
  }
}

async function submitted(site: ServiceSite, count: number, input: object = {}): Promise<string[]> {
  const made = Array.from({ length: count }, (_, n) =>
    site.service.submit({ kind: 'call', tool: 'my:double', args: { n }, idempotencyKey: `k${n}`, ...input }, operator),
  )
  return (await Promise.all(made)).map(({ callId }) => callId)
}

async function ended(site: ServiceSite, callId: string): Promise<Result> {
  await site.service.wait(callId, operator, 30_000, never)
  const { result } = await site.service.call(callId, operator)
  return result as Result
}

const allEnded = (site: ServiceSite, ids: readonly string[]): Promise<Result[]> =>
  Promise.all(ids.map((callId) => ended(site, callId)))

const deploys = (results: readonly Result[]): unknown[] => results.map(({ output }) => (output as JsonObject)?.deploy)

async function claims(site: ServiceSite): Promise<number> {
  const [row] = await site.database.query<{ n: number }>("select count(*)::integer n from audit where phase = 'start'")
  return row?.n ?? 0
}

test('calls of a tool version run on workers that have it, while other workers have only the next version', async (t) => {
  const { start } = await openFleet(t)
  const api = await start([tool('old')], ['api'])
  const ids = await submitted(api, 40)
  await start([tool('new', { version: '2.0.0' })], ['worker'], { slots: 8 })
  // The new worker, alone at first, releases these calls because it lacks their version.
  await start([tool('old')], ['worker'], { slots: 2 })
  const results = await allEnded(api, ids)
  assert.deepEqual(new Set(results.map(({ status, error }) => error?.message ?? status)), new Set(['ok']))
  assert.deepEqual(new Set(deploys(results)), new Set(['old']))
  assert.ok((await claims(api)) <= 80, 'a worker without the tool claims a call at most once')
})

test('a call of the next version waits for a new worker although an old one claims it', async (t) => {
  const { start } = await openFleet(t)
  const api = await start([tool('new', { version: '2.0.0' })], ['api'])
  await start([tool('old')], ['worker'])
  const ids = await submitted(api, 10)
  const seen = await api.database.query<{ n: number }>('select count(*)::integer n from queue where needs is not null')
  assert.ok((seen[0]?.n ?? 0) <= 10)
  await start([tool('new', { version: '2.0.0' })], ['worker'])
  const results = await allEnded(api, ids)
  assert.deepEqual(new Set(deploys(results)), new Set(['new']))
})

test('a changed description makes no call stale, unless the caller pinned the definition by its digest', async (t) => {
  const { start } = await openFleet(t)
  const described = { description: 'Gives twice the number.', input: { n: { ...number, description: 'Which one' } } }
  const api = await start([tool('old')], ['api'])
  const ids = await submitted(api, 5)
  const schemaDigest = api.service.executor.find('my:double', { identity: operator }).digest
  const [pinned = ''] = await submitted(api, 1, { schemaDigest, idempotencyKey: 'pinned' })
  await start([tool('new', described)], ['worker'])
  assert.deepEqual(new Set(deploys(await allEnded(api, ids))), new Set(['new']))
  assert.equal((await api.service.call(pinned, operator)).result, undefined)
  await start([tool('old')], ['worker'])
  assert.deepEqual(deploys([await ended(api, pinned)]), ['old'])
})

test('a changed input schema under the same version is another definition, and calls wait for their own', async (t) => {
  const { start } = await openFleet(t)
  const api = await start([tool('old')], ['api'])
  const ids = await submitted(api, 3)
  await start([tool('new', { input: { n: { ...number, minimum: 100 } } })], ['worker'])
  await start([tool('old')], ['worker'])
  assert.deepEqual(new Set(deploys(await allEnded(api, ids))), new Set(['old']))
})

for (const [name, open] of [
  ['PostgreSQL', async (t: TestContext) => (await postgresDatabase(t)).database],
  ['PGlite', pgliteDatabase],
] as const) {
  test(`${name}: a call whose version no worker gets fails after versionWaitMs, and its error names the version`, async (t) => {
    const site = await openServiceSite(t, open, { tools: [tool('old')] }, { versionWaitMs: 1, slots: 1 })
    const [later = ''] = await submitted(site, 1, { delayMs: 200 })
    await site.configure({ tools: [tool('new', { version: '2.0.0' })] })
    const { status, error } = await ended(site, later)
    assert.deepEqual([status, error?.code, error?.effect], ['failed', 'TOOL_NOT_FOUND', 'none'])
    assert.match(error?.message ?? '', /No worker had my:double:1\.0\.0 \(definition [0-9a-f]{12}\) within 1 ms/)
    const [letter] = (await site.service.deadLetters({}, operator)).items
    assert.equal(letter?.callId, later)
    // Once the version is back, the redriven call runs.
    await site.configure({ tools: [tool('back')] })
    const { callId } = await site.service.redrive(letter?.id ?? '', operator)
    assert.deepEqual(deploys([await ended(site, callId)]), ['back'])
  })
}

test('a call that waited for approval resumes on a worker that has its version', async (t) => {
  const { start } = await openFleet(t)
  const asks = (one: DefinedTool): DefinedTool => ({ ...one, tool: { ...one.tool, approval: 'always' } })
  const api = await start([asks(tool('old'))], ['api'])
  await start([asks(tool('old'))], ['worker'])
  await start([asks(tool('new', { version: '2.0.0' }))], ['worker'])
  const ids = await submitted(api, 6)
  const approvals = approvalRecords(api.database)
  const open = await eventually(async () => {
    const { items } = await approvals.list({}, bob)
    return items.length === ids.length ? items : undefined
  }, 'a question for each call')
  for (const { id } of open) await approvals.decide(id, { decision: 'approve' }, bob)
  assert.deepEqual(
    deploys(await allEnded(api, ids)),
    ids.map(() => 'old'),
  )
})

test('a chain waits for a worker that has all its tools, and a step with an unknown tool fails', async (t) => {
  const { start } = await openFleet(t)
  const api = await start([tool('new', { version: '2.0.0' })], ['api'])
  await start([tool('old')], ['worker'])
  const chain = (steps: readonly object[]) => api.service.submit({ kind: 'chain', args: { steps } } as never, operator)
  const { callId: waits } = await chain([{ tool: 'my:double:2.0.0', args: { n: 4 } }])
  const { callId: fails } = await chain([{ tool: 'my:nothing', args: {} }])
  const failed = await ended(api, fails)
  assert.equal(failed.error?.code, 'TOOL_NOT_FOUND')
  await start([tool('new', { version: '2.0.0' })], ['worker'])
  const { output } = await ended(api, waits)
  assert.deepEqual(output, { deploy: 'new', doubled: 8 })
})
