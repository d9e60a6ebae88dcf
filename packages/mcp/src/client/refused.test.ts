import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fakeContext, fakeHost } from '@gantry/conformance/internal/backend'
import { ToolError } from '@gantry/contract'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import { toolNamed } from './backend.fixture.ts'
import { mcp } from './mcp.ts'

const refusals = [
  new ToolError('EGRESS_DENIED', 'That address is not allowed.', { details: { rule: 'private' } }),
  new ToolError('RATE_LIMITED', 'Too many connections.', { details: { limit: 8 } }),
  new ToolError('SECRET_UNAVAILABLE', 'There is no secret token.', { details: { name: 'token' } }),
  new ToolError('CONFIG_INVALID', 'A rule is wrong.', { details: { path: '/egress' } }),
]

test('an error thrown by the host reaches the first caller and callers during the backoff unchanged', async () => {
  await Promise.all(refusals.map(keepsRefusal))
})

async function keepsRefusal(refusal: ToolError): Promise<void> {
  await using attached = refusedWith(refusal)
  const { backend } = attached
  const { code, message, retryable, effect, stage, details } = refusal
  const discover = async () => backend.discover?.(AbortSignal.timeout(5_000))
  const call = async () => {
    const tool = toolNamed('add')
    return backend.call({ id: 'test:add:1.0.0', tool, args: {}, binding: {} }, fakeContext(AbortSignal.timeout(5_000)))
  }
  for (let rests = false; !rests; ) {
    for (const attempt of [discover, call]) {
      const error = await attempt().then(
        () => assert.fail('it was not refused'),
        (reason: unknown) => reason,
      )
      assert.ok(ToolError.is(error))
      const { retryAfterMs, ...rest } = error.details ?? {}
      assert.deepEqual([error.code, error.message, error.retryable], [code, message, retryable])
      assert.deepEqual([error.effect, error.stage, rest], [effect, stage, details])
      rests = retryAfterMs !== undefined
    }
  }
}

/** A backend whose host refuses the way out, or the secret, with this error. */
function refusedWith(refusal: ToolError) {
  const egress = createEgressGuard()
  const refuse = async (): Promise<never> => {
    throw refusal
  }
  const secret = refusal.code === 'SECRET_UNAVAILABLE'
  const host: BackendHost = {
    ...fakeHost(egress),
    ...(secret ? { secret: refuse } : { egress: { ...egress, fetch: () => refuse } }),
  }
  const backend = mcp({
    name: 'test',
    url: 'https://mcp.example.com/mcp',
    ...(secret ? { headers: { 'x-token': 'secret:token' } } : {}),
  })
  backend.attach?.(host)
  return {
    backend,
    async [Symbol.asyncDispose]() {
      await backend.close?.(AbortSignal.timeout(5_000))
      await egress.close()
    },
  }
}
