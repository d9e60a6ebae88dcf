import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity, Tool } from '@gantry/contract'
import type { Policy, PolicyRequest } from '@gantry/core/internal/policies/policy'

const waiting = { signal: new AbortController().signal }

/** The contract of Policy. `create` makes one that allows `open:tool`, denies `shut:tool` and asks about `careful:tool`, for everyone. */
export function testPolicy(name: string, create: () => Policy): void {
  test(`${name}: says allow, deny and ask, the latter two with a reason`, async () => {
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

  test(`${name}: does not allow what it has never heard of`, async () => {
    assert.notEqual((await create().decide(requestFor('unheard'), waiting)).effect, 'allow')
  })

  test(`${name}: decides the same for the same request, also when asked many times at once`, async () => {
    const policy = create()
    const decisions = await Promise.all(Array.from({ length: 50 }, () => policy.decide(requestFor('shut'), waiting)))
    assert.ok(decisions.every(({ effect }) => effect === 'deny'))
  })

  test(`${name}: never shows in discovery what it denies`, () => {
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
