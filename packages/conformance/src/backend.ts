import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject, Tool } from '@gantry/contract'
import { memoryArtifacts } from '@gantry/core/internal/artifacts/memory'
import type { Backend, BackendContext, BackendHost, BackendReport } from '@gantry/core/internal/backends/backend'
import type { Egress } from '@gantry/core/internal/egress/egress'

/** A backend under test, and functions that make it serve tools that behave as named. */
export interface BackendFixture {
  /** Attached already, to a host of `fakeHost`, when it wants one. */
  readonly backend: Backend
  /** A tool that returns `{ result: a + b }`. */
  readonly add: Tool
  /** A tool that fails with the message `it broke`. */
  readonly fail: Tool
  /** A tool that ends only when its signal aborts. */
  readonly wait: Tool
  close?(): Promise<void>
}

/** The contract of Backend; every implementation runs it. */
export function testBackend(name: string, open: () => Promise<BackendFixture>): void {
  const inFixture = (title: string, body: (fixture: BackendFixture) => Promise<void>): void => {
    test(`${name}: ${title}`, async () => {
      const fixture = await open()
      try {
        await body(fixture)
      } finally {
        await fixture.backend.close?.(AbortSignal.timeout(5_000))
        await fixture.close?.()
      }
    })
  }
  const call = async (fixture: BackendFixture, tool: Tool, args: JsonObject, context = fakeContext()) =>
    fixture.backend.call(
      { id: `${tool.namespace}:${tool.name}:${tool.version}`, tool, args, binding: bindingOf(tool) },
      context,
    )

  inFixture('a call returns the output of the tool', async (fixture) => {
    assert.deepEqual(await call(fixture, fixture.add, { a: 5, b: 3 }), { result: 8 })
  })

  inFixture('concurrent calls do not mix their outputs', async (fixture) => {
    const answers = await Promise.all([1, 2, 3, 4, 5].map((a) => call(fixture, fixture.add, { a, b: 10 })))
    assert.deepEqual(
      answers,
      [11, 12, 13, 14, 15].map((result) => ({ result })),
    )
  })

  inFixture('a failing tool rejects with its own message', async (fixture) => {
    await assert.rejects(call(fixture, fixture.fail, {}), /it broke/)
  })

  inFixture('an aborted signal ends the call', async (fixture) => {
    const controller = new AbortController()
    const waiting = call(fixture, fixture.wait, {}, fakeContext(controller.signal))
    controller.abort(new Error('enough'))
    await assert.rejects(waiting)
  })

  inFixture('a tool that the backend does not serve is refused, not run', async (fixture) => {
    const stranger: Tool = { ...fixture.add, name: 'stranger' }
    await assert.rejects(call(fixture, stranger, {}))
  })
}

function bindingOf(tool: Tool): { readonly [option: string]: unknown } {
  return tool.backends[0] ?? { kind: 'local' }
}

/** A context as a pipeline would give it, for tests that call a backend directly. */
export function fakeContext(signal: AbortSignal = new AbortController().signal): BackendContext {
  return {
    callId: 'call-1',
    tool: 'test:tool:1.0.0',
    identity: { principal: 'tester', tenant: 'test', permissions: ['*'] },
    idempotencyKey: 'call-1',
    attempt: 1,
    fence: undefined,
    signal,
    secrets: {},
    secret: async (name) => `value-of-${name}`,
    conceal: () => undefined,
    measured: () => undefined,
    progress: () => undefined,
    log: () => undefined,
    send: () => undefined,
    attach: () => Promise.reject(new Error('This context keeps no files.')),
    artifacts: memoryArtifacts(),
    keepsFiles: false,
    attachedBefore: () => undefined,
    inject: () => undefined,
    run: () => Promise.reject(new Error('This context makes no calls.')),
    chain: () => Promise.reject(new Error('This context makes no calls.')),
    search: async () => ({ items: [] }),
  }
}

/** A host for tests that use a backend without an executor; it records what is reported to it. */
export interface FakeHost extends BackendHost {
  readonly published: Tool[][]
  readonly reports: BackendReport[]
  readonly concealed: string[]
}

export function fakeHost(egress: Egress, secrets: { readonly [name: string]: string } = {}): FakeHost {
  const published: Tool[][] = []
  const reports: BackendReport[] = []
  const concealed: string[] = []
  return {
    egress,
    published,
    reports,
    concealed,
    secret: async (name) => {
      const value = secrets[name]
      if (value === undefined) throw new Error(`the test has no secret ${name}`)
      return value
    },
    conceal: (value) => void concealed.push(value),
    publish: async (tools) => {
      published.push([...tools])
      return { registered: tools.map(({ name }) => name), quarantined: [], refused: [] }
    },
    report: (report) => void reports.push(report),
  }
}
