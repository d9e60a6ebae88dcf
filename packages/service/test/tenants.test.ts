import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ArtifactRef, Identity, Result } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import type { Route } from '../src/http/route.ts'
import { allRoutes } from '../src/http/routes.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { asked, ledgerOf, stateOf } from './approvals.fixture.ts'
import { databaseEngines } from './databases.fixture.ts'
import { openServiceSite, servePeople } from './service-site.fixture.ts'

/** Every permission that a tenant can grant within itself. */
const operating = ['gantry:operate', 'gantry:approve', 'gantry:audit', 'gantry:keys', 'gantry:policy', 't:*']
const people: { readonly [key: string]: Identity } = {
  ada: { principal: 'ada', tenant: 'acme', permissions: operating },
  ann: { principal: 'ann', tenant: 'acme', permissions: operating },
  // The same principal name in another tenant: only the tenant distinguishes them.
  eve: { principal: 'ada', tenant: 'umbrella', permissions: operating },
}
const marker = 'only-for-acme'

/** Sends HTTP requests as one person. */
type Ask = (method: string, path: string, body?: unknown, headers?: object) => Promise<{ status: number; text: string }>

async function openSite(t: TestContext, open: (t: TestContext) => Promise<Database>) {
  const gate = Promise.withResolvers<void>()
  const anything = { type: 'object' } as const
  const tool = {
    namespace: 't',
    version: '1.0.0',
    description: 'A tool.',
    inputSchema: anything,
    effect: 'read',
  } as const
  const tools = [
    ...ledgerOf().tools,
    defineTool({ ...tool, name: 'long', run: () => ({ text: marker.repeat(2_000) }) }),
    defineTool({
      ...tool,
      name: 'slow',
      async run(_args, { log }) {
        log(marker)
        await gate.promise
        return {}
      },
    }),
  ]
  const site = await openServiceSite(t, open, { tools }, { inlineBytes: 4_096 })
  const server = await servePeople(site.service, people)
  t.after(async () => {
    gate.resolve()
    await server.close({ graceMs: 1_000 })
  })
  const as =
    (who: string): Ask =>
    async (method, path, body, headers = {}) => {
      const answer = await fetch(`${server.url}${path}`, {
        method,
        headers: { authorization: who, 'content-type': 'application/json', ...headers },
        ...(method === 'GET' ? {} : { body: JSON.stringify(body ?? {}) }),
        signal: AbortSignal.timeout(20_000),
      })
      return { status: answer.status, text: await answer.text() }
    }
  return { site, as }
}

/** A valid body for the route. */
function bodyFor({ path }: Route): unknown {
  return path === '/v1/approvals/:id' ? { decision: 'approve' } : {}
}

/** The response with the requested id replaced. */
function shape({ status, text }: { status: number; text: string }, id: string): string {
  return `${status} ${text.replaceAll(id, ':id')}`
}

/** Routes with the id of something that belongs to a tenant; tools belong to no tenant. */
const ofOne = allRoutes().filter(({ path }) => path.includes(':id') && !path.startsWith('/v1/tools'))
const lists = allRoutes().filter(({ path, method }) => method === 'GET' && !path.includes(':id'))

for (const [engine, open] of Object.entries(databaseEngines)) {
  test(`${engine}: no route gives a tenant access to what belongs to another`, async (t) => {
    const { site, as } = await openSite(t, open)
    const [ada, ann, eve] = [as('ada'), as('ann'), as('eve')]
    const made = async (ask: Ask, tool: string, headers: object = {}) =>
      JSON.parse((await ask('POST', '/v1/calls', { tool, args: { marker }, waitMs: 20_000 }, headers)).text) as Result
    const long = await made(ada, 't:long', { 'idempotency-key': 'same' })
    assert.equal(long.status, 'ok', JSON.stringify(long))
    const [artifact] = long.artifacts as readonly ArtifactRef[]
    const slow = JSON.parse((await ada('POST', '/v1/calls', { tool: 't:slow', waitMs: 0 })).text) as { callId: string }
    await stateOf(site, slow.callId, 'running', people.ada)
    const { question } = await asked(site, 't:pay', { marker }, people.ada)
    const { key } = JSON.parse((await ada('POST', '/v1/keys', { name: marker, permissions: ['t:*'] })).text) as {
      key: { id: string }
    }
    await site.database.query(
      `insert into dead_letters (id, tenant, call_id, source, reason, code, deliveries)
        values ('letter-1', 'acme', $1, 'call', $2, 'FAILED', 1)`,
      [long.callId, marker],
    )
    const ids = {
      calls: long.callId,
      running: slow.callId,
      artifacts: artifact?.id,
      approvals: question.id,
      'dead-letters': 'letter-1',
      keys: key.id,
    }
    for (const [what, id] of Object.entries(ids)) assert.equal(typeof id, 'string', what)

    await t.test('every route with an id responds as for an unknown id, and changes nothing', async () => {
      for (const route of ofOne) {
        const kind = /^\/v1\/([a-z-]+)/.exec(route.path)?.[1] ?? ''
        const own = kind === 'calls' ? [ids.calls, ids.running] : [ids[kind as keyof typeof ids]]
        for (const id of own) {
          assert.ok(id !== undefined, `something of the kind that ${route.path} is about`)
          const never = id.replace(/[0-9a-z](?=[^0-9a-z]*$)/i, (last) => (last === '0' ? '1' : '0'))
          const ask = async (of: string) =>
            shape(await eve(route.method, route.path.replace(':id', of), bodyFor(route)), of)
          const answer = await ask(id)
          assert.match(answer, /^404 /, `${route.method} ${route.path}`)
          assert.equal(answer, await ask(never), `${route.method} ${route.path}`)
        }
      }
      // The owner finds everything unchanged.
      for (const [kind, id] of Object.entries(ids)) {
        const path = kind === 'running' ? 'calls' : kind
        if (path === 'keys') continue
        assert.equal((await ada('GET', `/v1/${path}/${id}`)).status, 200, kind)
      }
      const [letter] = await site.database.query('select redriven_at, discarded_at from dead_letters')
      assert.deepEqual({ ...letter }, { redriven_at: null, discarded_at: null })
      assert.equal((await site.service.call(slow.callId, people.ada as Identity)).state, 'running')
      assert.equal((await site.service.approvals.get(question.id, people.ann as Identity)).state, 'open')
    })

    await t.test('no list, export or page shows anything of the other tenant', async () => {
      let shown = 0
      for (const { path } of lists) {
        const { text } = await eve('GET', path)
        for (const secret of [marker, ...Object.values(ids)]) {
          assert.ok(!text.includes(String(secret)), `${path} shows ${secret}`)
        }
        const own = await ada('GET', path)
        if (Object.values(ids).some((id) => own.text.includes(String(id)))) shown += 1
      }
      assert.ok(shown >= 5, `its owner sees something of it in ${shown} lists`)
    })

    await t.test('the same idempotency key of another tenant or principal starts a separate call', async () => {
      const again = await made(ada, 't:long', { 'idempotency-key': 'same' })
      assert.equal(again.callId, long.callId)
      for (const other of [eve, ann]) {
        const theirs = await made(other, 't:long', { 'idempotency-key': 'same' })
        assert.equal(theirs.status, 'ok')
        assert.notEqual(theirs.callId, long.callId)
        const different = { tool: 't:plain', args: { other: 1 }, waitMs: 20_000, idempotencyKey: 'fresh' }
        assert.equal((await other('POST', '/v1/calls', different)).status, 200)
      }
    })
  })
}
