import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { tenantTools } from '@gantry/core/internal/policies/tenant-tools'
import { addRows } from '../src/storage/calls.fixture.ts'
import type { Row } from '../src/storage/databases/database.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator, type ServiceSite } from './service-site.fixture.ts'

const inputSchema = { type: 'object' } as const
const tool = (namespace: string, name: string, permissions: readonly string[] = []) =>
  defineTool({
    namespace,
    name,
    version: '1.0.0',
    description: 'A tool of a test.',
    effect: 'read',
    inputSchema,
    permissions,
    run: () => 'done',
  })
const tools = [tool('demo', 'echo'), tool('t', 'priv', ['t:priv']), tool('pay', 'wire')]
const plain: Identity = { principal: 'key:plain', tenant: 'acme', permissions: [] }
const none = { code: 'NOT_FOUND', message: 'There is no dead letter of this id.' }

/** Inserts a dead letter, one second older than the one inserted before. */
async function bury(site: ServiceSite, id: string, given: Row): Promise<void> {
  const [row] = await site.database.query<{ count: number }>('select count(*)::integer as count from dead_letters')
  const created_at = new Date(Date.now() - 1_000 * (1 + (row?.count ?? 0)))
  const about = { tenant: 'acme', source: 'callback', reason: 'No listener.', code: 'BACKEND_FAILED', deliveries: 1 }
  await addRows(site.database, 'dead_letters', [{ id, ...about, created_at, ...given }])
}

async function buryCall(site: ServiceSite, id: string, name: string, as: Identity = operator): Promise<void> {
  const args = { password: 'hunter2-CANARY', note: 'for all' }
  const { callId } = await site.call(name, args, as)
  await bury(site, id, { call_id: callId, tool: `${name}:1.0.0` })
}

test('a dead letter is visible to principals that see its tool, and its arguments only to operators', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const { service } = site
  await buryCall(site, 'shown', 'demo:echo')
  await buryCall(site, 'hidden', 't:priv')
  await bury(site, 'gone', { tool: 'old:tool:1.0.0', payload: '{"a":1}' })
  await bury(site, 'unread', { tool: null, payload: '{"a":1,"api_key" : "x\\"CANARY","deep":{"token":{"v":["CANARY"' })
  const idsFor = async (as: Identity) => (await service.deadLetters({}, as)).items.map(({ id }) => id)

  assert.deepEqual(await idsFor(plain), ['shown'])
  assert.equal('payload' in (await service.deadLetter('shown', plain)), false)
  for (const id of ['hidden', 'gone', 'unread']) {
    const absent = await service.deadLetter('never-was', plain).catch((error: unknown) => error)
    const asked = await service.deadLetter(id, plain).catch((error: unknown) => error)
    assert.deepEqual([asked, JSON.stringify(asked)], [absent, JSON.stringify(absent)], id)
    await assert.rejects(service.deadLetter(id, plain), none)
  }
  assert.deepEqual(await idsFor({ ...plain, permissions: ['t:priv'] }), ['shown', 'hidden'])

  const operating: Identity = { ...plain, permissions: ['gantry:operate'] }
  for (const as of [operating, operator]) {
    assert.deepEqual(await idsFor(as), ['shown', 'hidden', 'gone', 'unread'])
    const shown = await service.deadLetter('hidden', as)
    assert.match(
      JSON.stringify(shown.payload),
      /^\{"password":"\[redacted 14 bytes hmac-sha256:\w{32}\]","note":"for all"\}$/,
    )
    const { payload } = await service.deadLetter('unread', as)
    const plain = String(payload).replaceAll(/\[redacted (\d+) bytes hmac-sha256:\w{32}\]/g, '<$1>')
    assert.match(plain, /^\{"a":1,"api_key" : "<\d+>","deep":\{"token":"<\d+>"$/)
  }
  const { callId } = await service.redrive('shown', operating)
  const [again] = await site.database.query<{ payload: string }>('select payload from calls where call_id = $1', [
    callId,
  ])
  assert.match(again?.payload ?? '', /hunter2-CANARY/, 'what is redriven is whole')
})

test('a page of dead letters is filled with visible ones, and its cursor names no hidden one', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const { service } = site
  for (const n of [1, 2, 3]) {
    await buryCall(site, `secret-${n}`, 't:priv')
    await buryCall(site, `seen-${n}`, 'demo:echo')
  }
  await bury(site, 'secret-4', { tool: 't:priv:1.0.0' })
  const bound: Identity = { ...operator, tools: ['demo:*'] }
  for (const as of [plain, bound]) {
    const found: string[] = []
    let cursor: string | undefined
    do {
      const page = await service.deadLetters({ limit: 1, ...(cursor === undefined ? {} : { cursor }) }, as)
      assert.equal(page.items.length, 1)
      found.push(...page.items.map(({ id }) => id))
      cursor = page.cursor
      assert.doesNotMatch(Buffer.from(cursor ?? '', 'base64url').toString(), /secret/)
    } while (cursor !== undefined)
    assert.deepEqual(found, ['seen-1', 'seen-2', 'seen-3'])
  }
  const [hidden] = (await service.calls({ tool: 't:priv' }, operator)).items
  const page = await service.calls({ limit: 1 }, bound)
  assert.deepEqual([page.items.length, page.items[0]?.tool], [1, 'demo:echo:1.0.0'])
  assert.ok(
    !Buffer.from(page.cursor ?? '', 'base64url')
      .toString()
      .includes(hidden?.callId ?? '-'),
  )
  const empty = { ...plain, tools: ['pay:*'] }
  assert.deepEqual(await service.deadLetters({ limit: 1 }, empty), { items: [] })
})

test('a key with a list of tools sees dead letters of its own chains only', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const bound: Identity = { ...operator, principal: 'key:bot', tools: ['*'] }
  const step = [{ id: 'one', tool: 'demo:echo', args: {} }]
  const own = await site.chain(step, undefined, bound)
  const other = await site.chain(step)
  await bury(site, 'own', { call_id: own.callId, tool: 'chain' })
  await bury(site, 'other', { call_id: other.callId, tool: 'chain' })
  const idsFor = async (as: Identity) => (await site.service.deadLetters({}, as)).items.map(({ id }) => id)
  assert.deepEqual(await idsFor(bound), ['own'])
  assert.equal((await site.service.deadLetter('own', bound)).id, 'own')
  await assert.rejects(site.service.deadLetter('other', bound), none)
  await assert.rejects(site.service.redrive('other', bound), none)
  await assert.rejects(site.service.discard('other', bound), none)
  assert.deepEqual(await idsFor(operator), ['own', 'other'])
})

test('dead letters of tools reserved for another tenant are not found, even by operators', async (t) => {
  const policy = tenantTools({ globex: ['pay:*'], acme: ['demo:*'] })
  const site = await openServiceSite(t, pgliteDatabase, { tools, policy })
  await buryCall(site, 'own', 'demo:echo')
  await bury(site, 'foreign', { tool: 'pay:wire:1.0.0' })
  assert.deepEqual(
    (await site.service.deadLetters({}, operator)).items.map(({ id }) => id),
    ['own'],
  )
  await assert.rejects(site.service.deadLetter('foreign', operator), none)
  await assert.rejects(site.service.redrive('foreign', operator), none)
  await assert.rejects(site.service.discard('foreign', operator), none)
})
