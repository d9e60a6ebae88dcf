import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codes, type ErrorCode, type ErrorDetails, ToolError } from '@gantry/contract'
import { errorInfoOf, remedyOf } from './errors.ts'

function remedy(code: ErrorCode, details?: ErrorDetails): string | undefined {
  return remedyOf(errorInfoOf(new ToolError(code, 'It went wrong.', details === undefined ? {} : { details })))
}

test('near names are advised only where there are any', () => {
  assert.equal(remedy('TOOL_NOT_FOUND', { nearest: ['demo:add'] }), codes.TOOL_NOT_FOUND.remedy)
  assert.equal(remedy('TOOL_NOT_FOUND', { nearest: [] }), '`gantry tools` lists what there is.')
  assert.equal(remedy('TOOL_NOT_FOUND'), '`gantry tools` lists what there is.')
})

test('advice that points at a detail needs the detail', () => {
  const issues = [{ path: '/a', message: 'is wrong' }]
  assert.equal(remedy('CONFIG_INVALID', { issues }), codes.CONFIG_INVALID.remedy)
  assert.equal(remedy('CONFIG_INVALID', { file: '/nowhere' }), undefined)
  assert.equal(remedy('RATE_LIMITED', { retryAfterMs: 0 }), codes.RATE_LIMITED.remedy)
  assert.equal(remedy('RATE_LIMITED'), undefined)
})

test('a message that says the place, and a call that was cancelled, need no advice', () => {
  const issues = [{ path: '', message: 'found "b" at line 2, column 2' }]
  assert.equal(remedy('PAYLOAD_INVALID', { issues }), undefined)
  assert.equal(remedy('PAYLOAD_INVALID', { file: '/nowhere' }), undefined)
  assert.equal(remedy('PAYLOAD_INVALID', { bytes: 5 }), codes.PAYLOAD_INVALID.remedy)
  assert.equal(remedy('CANCELLED'), undefined)
})

test('who may not decide on a call of their own is not told to ask for a permission', () => {
  assert.equal(
    remedy('DENIED', { own: true }),
    'Another principal with gantry:approve, or a role that `gantry approvals show` names, may decide.',
  )
  assert.equal(remedy('DENIED', { permission: 'gantry:approve' }), codes.DENIED.remedy)
})

test('all other errors keep the advice of the table', () => {
  for (const [code, row] of Object.entries(codes)) {
    if (/`details/.test(row.remedy) || code === 'CANCELLED') continue
    assert.equal(remedy(code as ErrorCode), row.remedy)
  }
})

test('what a command line may not reach is not a matter of egress.allow', () => {
  const denied = (stage: 'admit' | 'execute') => remedyOf(errorInfoOf(new ToolError('EGRESS_DENIED', 'No.', { stage })))
  assert.equal(denied('admit'), undefined)
  assert.equal(denied('execute'), codes.EGRESS_DENIED.remedy)
})
