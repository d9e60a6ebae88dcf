import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codes, type ErrorCode, ToolError } from '@gantry/contract'
import { isFault } from './circuit.ts'

test('of all codes, only those of a backend that did not answer or could not start speak against it', () => {
  const faults = (Object.keys(codes) as ErrorCode[]).filter((code) => isFault(new ToolError(code, 'x')))
  assert.deepEqual(faults.sort(), ['BACKEND_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'SANDBOX_INIT_FAILED', 'TIMEOUT'])
})

test('a failure of the tool’s own is an answer; one that broke something, or a server’s 5xx, is a fault', () => {
  const failed = (options: ConstructorParameters<typeof ToolError>[2]) =>
    isFault(new ToolError('BACKEND_FAILED', 'x', options))
  assert.equal(failed({}), false)
  assert.equal(failed({ details: { status: 404 } }), false)
  assert.equal(failed({ details: { status: 404 }, cause: new Error('not found') }), false)
  assert.equal(failed({ details: { status: 503 } }), true)
  assert.equal(failed({ cause: new Error('socket hang up') }), true)
  assert.equal(failed({ retryable: true }), true)
})

test('anything else that is thrown is a fault, except an aborted wait', () => {
  const hostile = new Proxy({}, { has: () => assert.fail('looked'), get: () => assert.fail('looked') })
  for (const thrown of [new Error('x'), 'text', undefined, null, hostile]) assert.equal(isFault(thrown), true)
  assert.equal(isFault(new DOMException('gone', 'AbortError')), false)
  assert.equal(isFault(new DOMException('late', 'TimeoutError')), true)
})
