import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity, Tool } from '@gantry/contract'
import type { Audit, AuditRecord } from '@gantry/core/internal/audits/audit'
import { definitionHash } from '@gantry/core/internal/pins/definition'
import type { PinStore, Pins } from '@gantry/core/internal/pins/pin'
import type { Policy, PolicyRequest } from '@gantry/core/internal/policies/policy'
import type { SecretRequest, SecretSource } from '@gantry/core/internal/secrets/secret'

/** The contract of Audit; `create` also says how to read back what was written. */
export function testAudit(
  name: string,
  create: () => Promise<{ audit: Audit; read: () => Promise<readonly AuditRecord[]> }>,
): void {
  test(`${name}: keeps records as written and in order`, async () => {
    const { audit, read } = await create()
    for (const callId of ['a', 'b', 'c']) await audit.write(startOf(callId))
    assert.deepEqual(await read(), ['a', 'b', 'c'].map(startOf))
  })

  test(`${name}: stores many concurrent records and loses none`, async () => {
    const { audit, read } = await create()
    const ids = Array.from({ length: 100 }, (_, index) => `call-${index}`)
    await Promise.all(ids.map((id) => audit.write(startOf(id))))
    assert.deepEqual((await read()).map(({ callId }) => callId).sort(), [...ids].sort())
  })
}

function startOf(callId: string): AuditRecord {
  return {
    phase: 'start',
    at: '2026-11-15T00:00:00.000Z',
    callId,
    tool: 'math:add:1.0.0',
    principal: 'alice',
    tenant: 'acme',
  }
}

const request: SecretRequest = {
  tool: 'math:add:1.0.0',
  identity: { principal: 'alice', tenant: 'acme', permissions: [] },
  signal: new AbortController().signal,
}

/** The contract of SecretSource. `create` makes one that knows `api` as `correct-horse` and nothing else. */
export function testSecretSource(name: string, create: () => SecretSource): void {
  test(`${name}: returns a secret by its name`, async () => {
    assert.equal(await create().get('api', request), 'correct-horse')
  })

  test(`${name}: returns nothing for any other name, including inherited ones`, async () => {
    for (const other of ['API', 'other', 'toString', '__proto__', 'constructor', '']) {
      assert.equal(await create().get(other, request), undefined, other)
    }
  })
}

const signal = new AbortController().signal

/** Pins of one tool with the given description. */
export function somePins(description: string): Pins {
  const definition = { name: 'read', description, inputSchema: { type: 'object' } }
  return { read: { hash: definitionHash(definition), definition, at: '2026-01-01T00:00:00.000Z', by: 'first-use' } }
}

/** The contract of PinStore. */
export function testPinStore(name: string, create: () => PinStore): void {
  test(`${name}: returns nothing for a source that was never saved, including inherited names`, async () => {
    const store = create()
    for (const source of ['mcp:files', 'toString', 'constructor']) {
      assert.equal(await store.load(source, signal), undefined, source)
    }
  })

  test(`${name}: returns the last saved pins of each source`, async () => {
    const store = create()
    await store.save('mcp:files', somePins('Reads.'), signal)
    await store.save('mcp:notes', somePins('Notes.'), signal)
    await store.save('mcp:files', somePins('Reads a file.'), signal)
    assert.deepEqual(await store.load('mcp:files', signal), somePins('Reads a file.'))
    assert.deepEqual(await store.load('mcp:notes', signal), somePins('Notes.'))
  })

  test(`${name}: keeps all concurrent saves`, async () => {
    const store = create()
    const sources = ['mcp:a', 'mcp:b', 'mcp:c', 'mcp:d']
    await Promise.all(sources.map((source) => store.save(source, somePins(source), signal)))
    for (const source of sources) assert.deepEqual(await store.load(source, signal), somePins(source))
  })

  test(`${name}: a save adds to the pins of the source, and replaces only those of the same tools`, async () => {
    const store = create()
    const { read } = somePins('Reads.')
    const { read: changed } = somePins('Reads a file.')
    assert.ok(read !== undefined && changed !== undefined)
    await store.save('mcp:files', { read }, signal)
    await Promise.all([
      store.save('mcp:files', { list: read }, signal),
      store.save('mcp:files', { read: changed }, signal),
    ])
    assert.deepEqual(await store.load('mcp:files', signal), { read: changed, list: read })
    await store.save('mcp:files', {}, signal)
    assert.deepEqual(await store.load('mcp:files', signal), { read: changed, list: read })
    await store.save('mcp:empty', {}, signal)
    assert.deepEqual(await store.load('mcp:empty', signal), {}, 'it was seen')
  })

  test(`${name}: an aborted signal ends both load and save`, async () => {
    const store = create()
    await assert.rejects(store.load('mcp:files', AbortSignal.abort(new Error('enough'))))
    await assert.rejects(store.save('mcp:files', {}, AbortSignal.abort(new Error('enough'))))
  })
}

const waiting = { signal: new AbortController().signal }

/** The contract of Policy. `create` makes one that allows `open:tool`, denies `shut:tool` and asks about `careful:tool`, for everyone. */
export function testPolicy(name: string, create: () => Policy): void {
  test(`${name}: decides allow, deny and ask, the latter two with a reason`, async () => {
    const policy = create()
    assert.equal((await policy.decide(requestFor('open'), waiting)).effect, 'allow')
    for (const [namespace, effect] of [
      ['shut', 'deny'],
      ['careful', 'ask'],
    ] as const) {
      const decision = await policy.decide(requestFor(namespace), waiting)
      assert.equal(decision.effect, effect)
      assert.ok(decision.reason !== undefined && decision.reason.length > 0)
    }
  })

  test(`${name}: does not allow an unknown tool`, async () => {
    assert.notEqual((await create().decide(requestFor('unheard'), waiting)).effect, 'allow')
  })

  test(`${name}: decides the same for the same request, also concurrently`, async () => {
    const policy = create()
    const decisions = await Promise.all(Array.from({ length: 50 }, () => policy.decide(requestFor('shut'), waiting)))
    assert.ok(decisions.every(({ effect }) => effect === 'deny'))
  })

  test(`${name}: hides denied tools from discovery`, () => {
    const { visible } = create()
    if (visible === undefined) return
    assert.equal(visible(requestFor('shut')), false)
    assert.equal(visible(requestFor('open')), true)
  })
}

/** A request of an ordinary caller for `<namespace>:tool`. */
export function requestFor(
  namespace: string,
  identity: Partial<Identity> = {},
  tool: Partial<Tool> = {},
): PolicyRequest {
  return {
    identity: { principal: 'alice', tenant: 'acme', permissions: [], ...identity },
    id: `${namespace}:tool:1.0.0`,
    tool: {
      namespace,
      name: 'tool',
      version: '1.0.0',
      description: 'A tool.',
      inputSchema: { type: 'object' },
      backends: [{ kind: 'local' }],
      effect: 'once',
      ...tool,
    },
    args: {},
  }
}
