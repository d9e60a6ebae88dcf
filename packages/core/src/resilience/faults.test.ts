import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codes, type ErrorCode, ToolError } from '@gantry/contract'
import { isFault } from './circuit.ts'

test('only the codes of a backend that did not answer or could not start count as faults', () => {
  const faults = (Object.keys(codes) as ErrorCode[]).filter((code) => isFault(new ToolError(code, 'x')))
  assert.deepEqual(faults.sort(), ['BACKEND_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'SANDBOX_INIT_FAILED', 'TIMEOUT'])
})

test('BACKEND_FAILED counts as a fault only with a 5xx status, a cause without a status, or retryable set', () => {
  const failed = (options: ConstructorParameters<typeof ToolError>[2]) =>
    isFault(new ToolError('BACKEND_FAILED', 'x', options))
  assert.equal(failed({}), false)
  assert.equal(failed({ details: { status: 404 } }), false)
  assert.equal(failed({ details: { status: 404 }, cause: new Error('not found') }), false)
  assert.equal(failed({ details: { status: 503 } }), true)
  assert.equal(failed({ cause: new Error('socket hang up') }), true)
  assert.equal(failed({ retryable: true }), true)
})

test('any other thrown value is a fault, except an AbortError', () => {
  const hostile = new Proxy({}, { has: () => assert.fail('looked'), get: () => assert.fail('looked') })
  for (const thrown of [new Error('x'), 'text', undefined, null, hostile]) assert.equal(isFault(thrown), true)
  assert.equal(isFault(new DOMException('gone', 'AbortError')), false)
  assert.equal(isFault(new DOMException('late', 'TimeoutError')), true)
})
