import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AuditView, Identity } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { builtinTools } from '@gantry/tools'
import { defaultAuthentication } from '../src/config/authentication-settings.ts'
import { newApiKey } from '../src/config/service-files.ts'
import { openAuthentication } from '../src/http/authentication/open-authentication.ts'
import { createHttpServer } from '../src/http/server.ts'
import { createBus } from '../src/observe/bus.ts'
import { databaseEngines, pgliteDatabase } from './databases.fixture.ts'
import { until } from './serve.fixture.ts'
import { openServiceSite, operator, type ServiceSite } from './service-site.fixture.ts'

const never = new AbortController().signal
const any = { type: 'object' } as const

const plain = defineTool({
  namespace: 'some',
  name: 'plain',
  description: 'Does nothing.',
  inputSchema: any,
  effect: 'read',
  run: () => 1,
})
const privileged = defineTool({
  namespace: 'some',
  name: 'privileged',
  description: 'Does nothing either.',
  inputSchema: any,
  effect: 'read',
  permissions: ['some:thing'],
  secrets: ['TOKEN'],
  run: (_args: object, { secrets }) => secrets.TOKEN?.length ?? 0,
})

/** The audit entries of a call, oldest first. */
async function rowsOf({ service }: ServiceSite, call: string): Promise<readonly AuditView[]> {
  return (await service.audit.list({ call }, operator)).items.toReversed()
}

for (const [engine, database] of Object.entries(databaseEngines)) {
  test(`${engine}: the audit log has the start and end of each call, and the intent with arguments of a privileged one`, async (t) => {
    const site = await openServiceSite(t, database, {
      tools: [plain, privileged],
      secrets: { get: async () => 'a secret of some length' },
    })
    const first = await site.call('some:plain', { user: 'alice' })
    const rows = await rowsOf(site, first.callId)
    assert.deepEqual(
      rows.map(({ phase, status, principal, details }) => [phase, status, principal, details]),
      [
        ['start', undefined, 'operator', undefined],
        ['end', 'ok', 'operator', undefined],
      ],
    )
    assert.equal(typeof rows[1]?.config, 'string')
    const second = await site.call('some:privileged', { user: 'alice' })
    const intents = (await rowsOf(site, second.callId)).filter(({ phase }) => phase === 'intent')
    assert.equal(intents.length, 1)
    assert.deepEqual((intents[0]?.details as { args?: unknown } | undefined)?.args, { user: 'alice' })
    const { ok, rows: all, unsealed } = await site.service.audit.verify(undefined, operator, never)
    assert.deepEqual([ok, all, unsealed], [true, 5, 0])
  })

  test(`${engine}: the audit log redacts secrets in arguments by key and by value, at any depth and in any encoding`, async (t) => {
    const canary = 'kanarie/vogel+zingt?luid&lang'
    const site = await openServiceSite(t, database, { tools: [privileged], secrets: { get: async () => canary } })
    const bytes = Buffer.from(canary)
    const forms = {
      plain: canary,
      base64: bytes.toString('base64'),
      base64url: bytes.toString('base64url'),
      hex: bytes.toString('hex'),
      url: encodeURIComponent(canary),
      json: JSON.stringify(JSON.stringify(canary)),
    }
    const { callId, outcome } = await site.call('some:privileged', {
      kept: 'as it is',
      login: { apiKey: 'by its key', deep: [{ password: ['by its key too'] }] },
      forms: { list: Object.values(forms).map((form) => ({ within: `before ${form} after` })) },
      ...Object.fromEntries(Object.values(forms).map((form) => [`key ${form}`, 1])),
    })
    assert.equal(outcome.status, 'ok')
    const text = JSON.stringify(await rowsOf(site, callId))
    for (const [name, form] of Object.entries(forms)) assert.ok(!text.includes(form), name)
    assert.doesNotMatch(text, /by its key/)
    assert.match(text, /"kept":"as it is"/)
    assert.equal(text.match(/before .{0,6}\[redacted \d+ bytes hmac-sha256:\w{32}\].{0,6} after/g)?.length, 6)
    // Each encoding is a different text with its own digest.
    assert.equal(new Set(text.match(/key .{0,6}\[redacted \d+ bytes hmac-sha256:\w{32}\]/g)).size, 6)
  })

  test(`${engine}: the audit log has the arguments and runtime of a command without a sandbox, and isolation none`, async (t) => {
    const site = await openServiceSite(t, database, {
      tools: builtinTools(),
      runtimes: { pool: false, profiles: { open: { floor: 'none', unsafeHost: true } } },
    })
    const args = { argv: ['echo', 'see://a:payload@'], profile: 'open', runtime: 'unsafe_host' }
    const { callId, outcome } = await site.call('shell:run', args)
    assert.equal(outcome.status, 'ok')
    const rows = await rowsOf(site, callId)
    const detailsOf = (phase: string): object => Object(rows.find((row) => row.phase === phase)?.details)
    assert.deepEqual(detailsOf('end'), { runtime: { kind: 'unsafe_host', isolation: 'none' } })
    const { digest, ...intent } = detailsOf('intent') as { digest?: string }
    assert.match(digest ?? '', /^[0-9a-f]{64}$/)
    assert.deepEqual(intent, { args, confinement: { backend: 'sandboxed' } })
    const script = `# ${'x'.repeat(70_000)}`
    const long = await site.call('shell:run', { script, profile: 'open', runtime: 'unsafe_host' })
    const kept = (await rowsOf(site, long.callId)).find(({ phase }) => phase === 'intent')?.details
    assert.doesNotMatch(JSON.stringify(kept), /xxx/)
    const { argsFile } = kept as { argsFile?: { artifact: string; sha256: string } }
    const file = await site.service.artifact(argsFile?.artifact ?? '', undefined, operator, never)
    assert.equal(file.artifact.digest, `sha256:${argsFile?.sha256}`)
    file.content.destroy()
    const verdict = await site.service.audit.verify(undefined, operator, never)
    assert.deepEqual([verdict.ok, verdict.findings], [true, []])
  })

  test(`${engine}: the audit log has refusals of hidden tools with their count, and none for invalid arguments`, async (t) => {
    const site = await openServiceSite(t, database, { tools: [plain, privileged] })
    const carl: Identity = { principal: 'carl', tenant: 'acme', permissions: [] }
    const refused = async (tool: string, args: object, code: string): Promise<void> => {
      await assert.rejects(site.service.submit({ kind: 'call', tool, args: args as never }, carl), { code })
    }
    for (let n = 0; n < 3; n++) await refused('some:hidden', {}, 'TOOL_NOT_FOUND')
    await refused('some:plain', [], 'INPUT_INVALID')
    await site.service.audit.verify(undefined, operator, never)
    const read = async (): Promise<readonly AuditView[]> =>
      (await site.service.audit.list({ phase: 'refused' }, operator)).items
    await until(t, async () => (await read()).length > 0)
    assert.deepEqual(
      (await read()).map(({ principal, tool, code, status, details }) => [principal, tool, code, status, details]),
      [['carl', 'some:hidden', 'TOOL_NOT_FOUND', 'denied', { times: 3 }]],
    )
  })

  test(`${engine}: the audit log is searched and exported by tenant, and each tenant sees only its own entries`, async (t) => {
    const site = await openServiceSite(t, database, { tools: [plain] })
    const mona: Identity = { principal: 'mona', tenant: 'other', permissions: ['gantry:audit'] }
    const ids = [(await site.call('some:plain', {})).callId, (await site.call('some:plain', {}, mona)).callId]
    const { audit } = site.service
    const callsOf = async (query: object, who: Identity): Promise<readonly string[]> =>
      (await audit.list(query, who)).items.map(({ callId, phase }) => `${ids.indexOf(callId)} ${phase}`)
    assert.deepEqual(await callsOf({}, mona), ['1 end', '1 start'])
    assert.deepEqual(await callsOf({ tenant: 'other' }, mona), ['1 end', '1 start'])
    assert.deepEqual(await callsOf({ call: ids[0] }, mona), [])
    for (const tenant of ['acme', '*', 'missing']) {
      await assert.rejects(audit.list({ tenant }, mona), { code: 'DENIED' })
      assert.throws(() => audit.export({ tenant }, mona, never), { code: 'DENIED' })
    }
    await assert.rejects(audit.verify(undefined, mona, never), { code: 'DENIED' })
    assert.deepEqual(await callsOf({ tenant: '*' }, operator), ['1 end', '1 start', '0 end', '0 start'])
    assert.deepEqual(await callsOf({ tenant: 'other', phase: 'end' }, operator), ['1 end'])
    const later = new Date(Date.now() + 60_000).toISOString()
    for (const [query, count] of [
      [{ principal: 'operator' }, 2],
      [{ principal: 'oper' }, 0],
      [{ tool: 'some:plain' }, 2],
      [{ tool: 'some:plain:1.0.0', status: 'ok' }, 1],
      [{ tool: 'some:pla' }, 0],
      [{ since: later }, 0],
      [{ until: later }, 2],
      [{ until: '2020-02-31' }, 0],
    ] as const) {
      assert.equal((await audit.list(query, operator)).items.length, count, JSON.stringify(query))
    }
    await assert.rejects(audit.list({ since: 'yesterday' }, operator), { code: 'INPUT_INVALID' })
    await assert.rejects(audit.list({ cursor: 'x' }, operator), { code: 'INPUT_INVALID' })
    const page = await audit.list({ tenant: '*', limit: 3 }, operator)
    const rest = await audit.list({ tenant: '*', limit: 3, cursor: page.cursor ?? '' }, operator)
    assert.deepEqual([page.items.length, rest.items.length, rest.cursor], [3, 1, undefined])
    const lines: string[] = []
    for await (const line of audit.export({}, mona, never)) lines.push(JSON.parse(line).callId)
    assert.deepEqual(lines, [ids[1], ids[1]])
  })
}

test('the audit log has one entry for a cancellation, and none for a refused one by another tenant', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools: [plain] })
  const { service } = site
  const { callId } = await service.submit({ kind: 'call', tool: 'some:plain', args: {}, delayMs: 60_000 }, operator)
  await assert.rejects(service.cancel(callId, { ...operator, tenant: 'other' }), { code: 'NOT_FOUND' })
  assert.equal((await service.cancel(callId, operator)).state, 'cancelled')
  await service.cancel(callId, operator)
  assert.deepEqual(
    (await rowsOf(site, callId)).map(({ phase, tool, status }) => [phase, tool, status]),
    [
      ['end', 'some:plain:1.0.0', 'cancelled'],
      ['admin', 'calls.cancel', undefined],
    ],
  )
})

test('over HTTP the audit log needs gantry:audit, and its verification or other tenants’ entries gantry:tenants too', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools: [plain] })
  await site.call('some:plain', {})
  const ownerKey = newApiKey()
  const { authenticate, close } = await openAuthentication({
    database: site.database,
    owner: operator,
    key: ownerKey,
    bus: createBus(),
    settings: { authentication: defaultAuthentication },
  })
  const silent = (): void => undefined
  const server = await createHttpServer({
    service: site.service,
    authenticate,
    log: { debug: silent, info: silent, error: silent },
  })
  t.after(async () => {
    await server.close({ graceMs: 1_000 })
    await close()
  })
  const keyFor = async (...permissions: string[]): Promise<string> =>
    (await site.service.keys.create({ name: 'some', permissions }, operator)).text ?? ''
  const ask = async (key: string, path: string, body?: object): Promise<readonly [number, string]> => {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await fetch(`${server.url}${path}`, { ...init, headers })
    return [response.status, await response.text()]
  }
  const [none, own, all] = [await keyFor('gantry:operate'), await keyFor('gantry:audit'), ownerKey]
  const statuses = async (path: string, body?: object): Promise<readonly number[]> =>
    Promise.all([none, own, all].map(async (key) => (await ask(key, path, body))[0]))
  assert.deepEqual(await statuses('/v1/audit'), [403, 200, 200])
  assert.deepEqual(await statuses('/v1/audit?tenant=*'), [403, 403, 200])
  assert.deepEqual(await statuses('/v1/audit/export'), [403, 200, 200])
  assert.deepEqual(await statuses('/v1/audit/export?tenant=*'), [403, 403, 200])
  assert.deepEqual(await statuses('/v1/audit/export?tenant=*&tool=x'), [403, 403, 400])
  assert.deepEqual(await statuses('/v1/audit/verify', {}), [403, 403, 200])
  assert.deepEqual(await statuses('/v1/audit?since=never'), [403, 400, 400])
  const [, verdict] = await ask(all, '/v1/audit/verify', {})
  const { ok, head } = JSON.parse(verdict)
  assert.equal(ok, true)
  const [, again] = await ask(all, '/v1/audit/verify', {
    head: head.replace(/.$/, (last: string) => (last === '0' ? '1' : '0')),
  })
  assert.deepEqual([JSON.parse(again).ok, JSON.parse(again).findings[0].what], [false, 'head'])
  const [, lines] = await ask(all, '/v1/audit/export?tenant=*')
  const kinds = lines
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).kind)
  assert.ok(kinds.includes('seal') && kinds.includes('row'))
})
