import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SecretRequest, SecretSource } from '@gantry/core/internal/secrets/secret'

const request: SecretRequest = {
  tool: 'math:add:1.0.0',
  identity: { principal: 'alice', tenant: 'acme', permissions: [] },
  signal: new AbortController().signal,
}

/** The contract of SecretSource. `create` makes one that knows `api` as `correct-horse` and nothing else. */
export function testSecretSource(name: string, create: () => SecretSource): void {
  test(`${name}: gives a secret by its name`, async () => {
    assert.equal(await create().get('api', request), 'correct-horse')
  })

  test(`${name}: has nothing under any other name, inherited ones included`, async () => {
    for (const other of ['API', 'other', 'toString', '__proto__', 'constructor', '']) {
      assert.equal(await create().get(other, request), undefined, other)
    }
  })
}
