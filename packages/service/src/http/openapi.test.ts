import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { JsonSchema, Result } from '@gantry/contract'
import { http } from '@gantry/core'
import { compileSchema, type Validator } from '@gantry/json-schema'
import { importOpenapi } from '@gantry/openapi'
import { createExecutor } from '@gantry/tools'
import { type Rig, startRig } from './http.fixture.ts'
import { methodsOf } from './route.ts'
import { allRoutes } from './routes.ts'

interface Operation {
  readonly operationId: string
  readonly responses: {
    readonly [status: string]: { readonly content?: { readonly [type: string]: { schema?: JsonSchema } } }
  }
}

interface Document {
  readonly openapi: string
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } }
  readonly components: { readonly schemas: { readonly [name: string]: JsonSchema } }
}

const time = '2026-01-01T00:00:00.000Z'

async function documentOf({ ask }: Rig): Promise<Document> {
  return (await (await ask('/v1/openapi.json')).json()) as Document
}

/** A schema of the document with everything that it refers to. */
function standalone(document: Document, schema: JsonSchema): Validator {
  const text = JSON.stringify({ $ref: '#/$defs/it', $defs: { ...document.components.schemas, it: schema } })
  return compileSchema(JSON.parse(text.replaceAll('#/components/schemas/', '#/$defs/')) as JsonSchema, {
    format: 'assert',
  })
}

/** Sends a request, and checks the response against the document. Returns the operations and statuses that occurred. */
async function walker(t: TestContext, rig: Rig) {
  const document = await documentOf(rig)
  const seen = new Set<string>()
  const check = async (
    path: string,
    template: string,
    init: RequestInit & { method?: string } = {},
  ): Promise<unknown> => {
    const response = await rig.ask(path, init)
    const operation = document.paths[template]?.[(init.method ?? 'GET').toLowerCase()]
    assert.ok(operation !== undefined, `${init.method} ${template} is not documented`)
    const documented = operation.responses[response.status]
    assert.ok(documented !== undefined, `${operation.operationId} answered ${response.status}, which is not documented`)
    seen.add(`${operation.operationId} ${response.status}`)
    const [type = ''] = (response.headers.get('content-type') ?? '').split(';')
    const text = await response.text()
    if (documented.content === undefined) return assert.equal(text, '')
    const media = documented.content[type]
    assert.ok(media !== undefined, `${operation.operationId} ${response.status} answered ${type}`)
    if (media.schema === undefined) return text
    const validator = standalone(document, media.schema)
    const values = type === 'text/event-stream' ? eventsOf(text) : [JSON.parse(text) as unknown]
    for (const value of values)
      assert.deepEqual(validator.issues(value), [], `${operation.operationId} ${text.slice(0, 500)}`)
    return values[0]
  }
  t.diagnostic(`${Object.keys(document.paths).length} paths`)
  return { check, seen, document }
}

function eventsOf(text: string): unknown[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data) as unknown)
}

const json = (body: unknown): RequestInit => ({
  method: 'POST',
  body: JSON.stringify(body),
  headers: { 'content-type': 'application/json' },
})

test('the routes of the server are exactly those of the document', async (t) => {
  const rig = await startRig(t)
  const document = await documentOf(rig)
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )
  assert.ok(documented.length >= 20)
  for (const [path, methods] of Object.entries(document.paths)) {
    const answer = await rig.ask(path.replace('{id}', 'x'), { method: 'OPTIONS' })
    const allowed = (answer.headers.get('allow') ?? '')
      .split(', ')
      .filter((name) => !['HEAD', 'OPTIONS'].includes(name))
    assert.deepEqual(
      allowed.sort(),
      Object.keys(methods)
        .map((name) => name.toUpperCase())
        .sort(),
      path,
    )
  }
  const registered = allRoutes().map(({ method, path }) => `${method} ${path.replace(/:([a-z]+)/g, '{$1}')}`)
  assert.deepEqual(registered.sort(), documented.sort())
  assert.deepEqual(methodsOf({ method: 'GET', path: '/v1/calls' }), ['GET', 'HEAD'])
})

test('the responses of every route match the document', async (t) => {
  const rig = await startRig(t)
  const { check, seen, document } = await walker(t, rig)
  const bytes = new TextEncoder().encode('content')
  const ref = { id: 'a1', name: 'a', mimeType: 'application/octet-stream', bytes: bytes.length, digest: 'sha256:0' }
  rig.service.artifacts.set('a1', { ref, tenant: 'acme', bytes })
  const deadLetter = { id: '7', source: 'postgres', reason: 'It died.', code: 'DELIVERY_EXHAUSTED', deliveries: 3 }
  const payload = { kind: 'call', tool: 'demo:add', args: { a: 1, b: 2 } }
  rig.service.deadLetterRows.push({
    ...deadLetter,
    payload,
    callId: 'c',
    tool: 'demo:add',
    createdAt: new Date().toISOString(),
  })

  const call = { tool: 'demo:countdown', args: { from: 2, delayMs: 1 } }
  const { callId } = (await check('/v1/calls', '/v1/calls', json(call))) as Result
  await check('/v1/calls', '/v1/calls', json({ ...call, waitMs: 0 }))
  await check('/v1/calls', '/v1/calls', json({ tool: 'demo:fail', args: { message: 'no' } }))
  await check('/v1/calls', '/v1/calls', json({ tool: 'demo:nothing' }))
  await check('/v1/calls', '/v1/calls', json({ tool: 7 }))
  await check('/v1/calls', '/v1/calls', { ...json(call), headers: { authorization: 'Bearer no' } })
  await check('/v1/calls', '/v1/calls', {
    ...json(call),
    headers: { ...json(call).headers, origin: 'http://evil.example' },
  })
  await check('/v1/calls?limit=1', '/v1/calls')
  await check(`/v1/calls/${callId}`, '/v1/calls/{id}')
  await check('/v1/calls/nothing', '/v1/calls/{id}')
  await check(`/v1/calls/${callId}/events`, '/v1/calls/{id}/events')
  await check('/v1/calls/nothing/events', '/v1/calls/{id}/events')
  await check(`/v1/calls/${callId}/cancel`, '/v1/calls/{id}/cancel', { method: 'POST' })
  await check(`/v1/calls/${callId}/replay`, '/v1/calls/{id}/replay', { method: 'POST' })
  await check('/v1/calls/nothing/replay', '/v1/calls/{id}/replay', { method: 'POST' })
  const steps = [
    { tool: 'demo:add', args: { a: 1, b: 2 } },
    { parallel: [{ tool: 'demo:echo', args: { value: '{{prev}}' } }] },
  ]
  const chain = (await check('/v1/chains', '/v1/chains', json({ steps }))) as { chainId: string }
  assert.ok(chain.chainId !== undefined)
  await check('/v1/chains', '/v1/chains', json({ steps, waitMs: 0 }))
  const code = 'return (await tools.demo.add({ a: 1, b: 2 })).result'
  const { output } = (await check('/v1/code', '/v1/code', json({ code, language: 'javascript' }))) as Result
  assert.equal(output, 3)
  await check('/v1/code', '/v1/code', json({ code, waitMs: 0 }))
  await check('/v1/code', '/v1/code', json({ code: 7 }))
  await check('/v1/code', '/v1/code', json({ code, limits: { toolCals: 1 } }))
  await check('/v1/tools?query=add', '/v1/tools')
  await check('/v1/tools?versions=all', '/v1/tools')
  for (const level of ['summary', 'schema', 'full']) await check(`/v1/tools/demo:add?level=${level}`, '/v1/tools/{id}')
  await check('/v1/tools/nothing', '/v1/tools/{id}')
  await check('/v1/catalog', '/v1/catalog')
  await check('/v1/catalog', '/v1/catalog', { headers: { 'if-none-match': '*' } })
  await check('/v1/dead-letters', '/v1/dead-letters')
  await check('/v1/dead-letters/7', '/v1/dead-letters/{id}')
  await check('/v1/dead-letters/8', '/v1/dead-letters/{id}')
  await check('/v1/dead-letters/7/redrive', '/v1/dead-letters/{id}/redrive', { method: 'POST' })
  await check('/v1/dead-letters/7/discard', '/v1/dead-letters/{id}/discard', { method: 'POST' })
  rig.service.questions.push({
    id: 'ap_1',
    state: 'open',
    callId: 'c1',
    tool: 'demo:add:1.0.0',
    principal: 'ada',
    reason: 'It costs.',
    args: { a: 1 },
    argsBytes: 7,
    fingerprint: 'f',
    approvers: [],
    askedAt: time,
    expiresAt: time,
  })
  await check('/v1/approvals?state=all', '/v1/approvals')
  await check('/v1/approvals?state=some', '/v1/approvals')
  await check('/v1/approvals/ap_1', '/v1/approvals/{id}')
  await check('/v1/approvals/ap_2', '/v1/approvals/{id}')
  await check('/v1/approvals/ap_1', '/v1/approvals/{id}', json({ decision: 'deny', reason: 'no' }))
  await check('/v1/approvals/ap_1', '/v1/approvals/{id}', json({ decision: 'perhaps' }))
  await check('/v1/circuits/reset', '/v1/circuits/reset', json({ key: 'shop:find @ http:shop' }))
  await check('/v1/circuits/reset', '/v1/circuits/reset', json({ key: 'none', tenant: 'shop' }))
  await check('/v1/artifacts/a1', '/v1/artifacts/{id}')
  await check('/v1/artifacts/a1', '/v1/artifacts/{id}', { headers: { range: 'bytes=1-2' } })
  await check('/v1/artifacts/a1', '/v1/artifacts/{id}', { headers: { range: 'bytes=100-' } })
  await check('/v1/artifacts/a2', '/v1/artifacts/{id}')
  await check('/v1/artifacts/a1/url', '/v1/artifacts/{id}/url')
  await check('/v1/artifacts/a2/url', '/v1/artifacts/{id}/url')
  const made = (await check('/v1/keys', '/v1/keys', json({ name: 'ci', tools: ['demo:*'] }))) as { key: { id: string } }
  await check('/v1/keys', '/v1/keys', json({ name: 'ci', tools: ['no pattern'] }))
  await check('/v1/keys', '/v1/keys')
  await check(`/v1/keys/${made.key.id}/rotate`, '/v1/keys/{id}/rotate', { method: 'POST' })
  await check(`/v1/keys/${made.key.id}/revoke`, '/v1/keys/{id}/revoke', { method: 'POST' })
  await check('/v1/keys/nothing/revoke', '/v1/keys/{id}/revoke', { method: 'POST' })
  await check('/v1/policy', '/v1/policy')
  await check('/v1/policy', '/v1/policy', json({ rules: [{ deny: 'demo:*' }], default: 'allow' }))
  await check('/v1/policy', '/v1/policy', json({ rules: 'all' }))
  await check('/v1/policy/test', '/v1/policy/test', json({ tool: 'demo:add', args: { a: 1, b: 2 }, roles: ['x'] }))
  await check('/v1/policy/test', '/v1/policy/test', json({ tool: 'demo:nothing' }))
  await check('/v1/audit?tool=demo:add&since=2026-01-01', '/v1/audit')
  await check('/v1/audit?since=then', '/v1/audit')
  await check('/v1/audit/export?tenant=*', '/v1/audit/export')
  await check('/v1/audit/verify', '/v1/audit/verify', json({}))
  await check('/v1/audit/verify', '/v1/audit/verify', json({ head: 'nothing' }))
  for (const path of [
    '/v1/workers',
    '/v1/health',
    '/v1/runtimes',
    '/v1/circuits',
    '/v1/identity',
    '/metrics',
    '/healthz',
    '/readyz',
    '/v1/openapi.json',
  ]) {
    await check(path, path)
  }
  rig.service.state = { ready: false, problems: ['no'] }
  await check('/readyz', '/readyz')

  const successes = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).flatMap(({ operationId, responses }) =>
      Object.keys(responses)
        .filter((status) => Number(status) < 400 || status === '416')
        .map((status) => `${operationId} ${status}`),
    ),
  )
  assert.deepEqual(
    successes.filter((one) => !seen.has(one)),
    [],
  )
})

test('the check of responses can fail', async (t) => {
  const rig = await startRig(t)
  const document = await documentOf(rig)
  const validator = standalone(document, { $ref: '#/components/schemas/CallView' })
  assert.ok(validator.issues({ callId: 'x', state: 'asleep' }).length > 0)
})

test('the document can be imported as tools, and they work', async (t) => {
  const rig = await startRig(t)
  const imported = importOpenapi(await documentOf(rig), { name: 'gantry', baseUrl: rig.server.url })
  assert.deepEqual(imported.report.leftOut, [])
  assert.equal(imported.tools.length, allRoutes().length)
  const { auth: _auth, kind: _kind, ...backend } = imported.backend
  const executor = createExecutor({
    backends: [
      http({ ...backend, private: true, auth: { type: 'bearer', token: 'secret:key' }, tools: imported.tools }),
    ],
    secrets: { key: rig.key },
  })
  t.after(() => executor.close({ graceMs: 1 }))
  await executor.ready()
  const names = executor.tools().items.map(({ tool }) => tool.name)
  const create = names.find((name) => /create_?call/i.test(name))
  const result = await executor.run(`gantry:${create}`, { tool: 'demo:add', args: { a: 5, b: 3 } })
  assert.equal(result.status, 'ok', JSON.stringify(result.error))
  assert.deepEqual((result.output as { output: unknown }).output, { result: 8 })
})
