import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const never = new AbortController().signal
const inputSchema = { type: 'object' } as const
const tool = (namespace: string, name: string, run: () => string) =>
  defineTool({ namespace, name, version: '1.0.0', description: 'A tool of a test.', effect: 'read', inputSchema, run })
const tools = [
  tool('demo', 'echo', () => 'hello'),
  tool('mail', 'read', () => 'private'),
  tool('mail', 'long', () => 'x'.repeat(200_000)),
]
const bound: Identity = { principal: 'key:bot', tenant: 'acme', permissions: ['*'], tools: ['demo:*'] }

test('calls and artifacts of tools outside a key’s list are answered as not found, by every method', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const { service } = site
  const hidden = await site.call('mail:read', {})
  const shown = await site.call('demo:echo', {})
  const chain = await site.chain([{ id: 'one', tool: 'mail:read', args: {} }])
  const program = await site.call('code:program', { code: 'return await tools.mail.read({})' })
  const { callId: waiting } = await service.submit(
    { kind: 'call', tool: 'mail:read', args: {}, delayMs: 60_000 },
    operator,
  )
  const asks: { readonly [what: string]: (id: string, as: Identity) => Promise<unknown> } = {
    call: (id, as) => service.call(id, as),
    wait: (id, as) => service.wait(id, as, 1, never),
    events: (id, as) => service.events(id, 0, as, never),
    cancel: (id, as) => service.cancel(id, as),
    replay: (id, as) => service.replay(id, as, never),
  }
  for (const [what, ask] of Object.entries(asks)) {
    const absent = { code: 'NOT_FOUND', message: 'There is no call of this id.' }
    await assert.rejects(ask('call_that_never_was', bound), absent, what)
    for (const id of [hidden.callId, chain.callId, waiting]) await assert.rejects(ask(id, bound), absent, what)
    await assert.rejects(ask(program.callId, { ...bound, tools: ['demo:*', 'code:*'] }), absent, what)
    await ask(shown.callId, bound)
    await ask(hidden.callId, { ...bound, tools: ['demo:*', 'mail:read'] })
  }
  const { state } = await service.call(waiting, operator)
  assert.equal(state, 'delayed', 'it was not cancelled')
  const listed = (await service.calls({}, bound)).items.map(({ callId }) => callId)
  assert.deepEqual(listed, [shown.callId])
  assert.equal((await service.calls({}, { ...bound, tools: ['*'], principal: operator.principal })).items.length, 5)

  const { callId } = await site.call('mail:long', {})
  const [file] = await site.database.query<{ id: string }>('select id from artifacts where call_id = $1', [callId])
  const id = file?.id ?? ''
  const none = { code: 'NOT_FOUND', message: 'There is no artifact of this id.' }
  await assert.rejects(service.artifact(id, undefined, bound, never), none)
  await assert.rejects(service.artifactUrl(id, bound, never), none)
  const { content } = await service.artifact(id, undefined, { ...bound, tools: ['mail:*'] }, never)
  content.destroy()
})

test('a reader with a list of tools sees audit entries of those tools and of its own calls only', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const { audit, keys } = site.service
  await site.call('mail:read', {})
  const shown = await site.call('demo:echo', {})
  await site.chain([{ id: 'one', tool: 'mail:read', args: {} }])
  await site.call('code:program', { code: 'return 1' })
  await keys.create({ name: 'ci' }, operator)
  const seen = async (as: Identity, query: object = {}): Promise<readonly string[]> => [
    ...new Set((await audit.list(query, as)).items.map(({ tool }) => tool).toSorted()),
  ]
  const all = ['chain', 'code:program:1.0.0', 'demo:echo:1.0.0', 'keys.create', 'mail:read:1.0.0']
  assert.deepEqual(await seen(operator), all)
  assert.deepEqual(await seen(bound), ['demo:echo:1.0.0'])
  assert.deepEqual(await seen(bound, { tenant: '*' }), ['demo:echo:1.0.0'])
  assert.deepEqual(await seen(bound, { tool: 'mail:read' }), [])
  assert.deepEqual(await seen({ ...bound, tools: ['*'] }), ['demo:echo:1.0.0', 'mail:read:1.0.0'])
  const own = { ...bound, tools: ['*'], principal: operator.principal }
  assert.deepEqual(
    await seen(own),
    all.filter((tool) => tool !== 'keys.create'),
  )
  const lines: string[] = []
  for await (const line of audit.export({}, bound, never)) lines.push(JSON.parse(line).callId)
  assert.deepEqual(lines, [shown.callId, shown.callId])
  assert.throws(() => audit.export({ tenant: '*' }, bound, never), { code: 'DENIED' })
  assert.ok(audit.export({ tenant: '*' }, operator, never))
})

test('queued calls of a revoked key stay queued, unless the revocation cancels them', async (t) => {
  const { service } = await openServiceSite(t, pgliteDatabase, { tools })
  const later = async (principal: string): Promise<string> => {
    const as: Identity = { principal, tenant: 'acme', permissions: [] }
    const { callId } = await service.submit({ kind: 'call', tool: 'demo:echo', args: {}, delayMs: 60_000 }, as)
    return callId
  }
  const { key } = await service.keys.create({ name: 'ci' }, operator)
  const [own, other] = [await later('key:ci'), await later('key:else')]
  const states = async () => [(await service.call(own, operator)).state, (await service.call(other, operator)).state]
  await service.keys.revoke(key.id, operator)
  assert.deepEqual(await states(), ['delayed', 'delayed'])
  await service.keys.revoke(key.id, operator, { cancelCalls: true })
  assert.deepEqual(await states(), ['cancelled', 'delayed'])
})
