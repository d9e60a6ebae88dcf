import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codes, type ErrorCode, type ErrorDetails, ToolError } from '@gantry/contract'
import { errorInfoOf, errorText, remedyOf } from './errors.ts'

function remedy(code: ErrorCode, details?: ErrorDetails): string | undefined {
  return remedyOf(errorInfoOf(new ToolError(code, 'It went wrong.', details === undefined ? {} : { details })))
}

test('the remedy names near names only when there are any', () => {
  assert.equal(remedy('TOOL_NOT_FOUND', { nearest: ['demo:add'] }), codes.TOOL_NOT_FOUND.remedy)
  assert.equal(remedy('TOOL_NOT_FOUND', { nearest: [] }), '`gantry tools` lists what there is.')
  assert.equal(remedy('TOOL_NOT_FOUND'), '`gantry tools` lists what there is.')
})

test('a remedy that refers to a detail is printed only with that detail', () => {
  const issues = [{ path: '/a', message: 'is wrong' }]
  assert.equal(remedy('CONFIG_INVALID', { issues }), codes.CONFIG_INVALID.remedy)
  assert.equal(remedy('CONFIG_INVALID', { file: '/nowhere' }), undefined)
  assert.equal(remedy('RATE_LIMITED', { retryAfterMs: 0 }), codes.RATE_LIMITED.remedy)
  assert.equal(remedy('RATE_LIMITED'), undefined)
})

test('a parse error with its position, and a cancelled call, have no remedy', () => {
  const issues = [{ path: '', message: 'found "b" at line 2, column 2' }]
  assert.equal(remedy('PAYLOAD_INVALID', { issues }), undefined)
  assert.equal(remedy('PAYLOAD_INVALID', { file: '/nowhere' }), undefined)
  assert.equal(remedy('PAYLOAD_INVALID', { bytes: 5 }), codes.PAYLOAD_INVALID.remedy)
  assert.equal(remedy('CANCELLED'), undefined)
})

test('the remedy for deciding on one’s own call names another approver, not a permission', () => {
  assert.equal(
    remedy('DENIED', { own: true }),
    'Another principal with gantry:approve, or a role that `gantry approvals show` names, may decide.',
  )
})

test('the remedy of a denial fits its cause: a permission, a rule, a person, or the credentials of a backend', () => {
  assert.match(
    remedy('DENIED', { permission: 'pay' }) ?? '',
    /^Ask for pay: `gantry keys create <name> --permission pay`/,
  )
  assert.match(
    remedy('DENIED', { rule: 'big sums' }) ?? '',
    /^The rule big sums of the policy decides; `gantry policy test/,
  )
  assert.match(remedy('DENIED', { approval: 'denied' }) ?? '', /^A person decided against the call/)
  assert.match(remedy('DENIED', { status: 401, secrets: ['github'] }) ?? '', /^Check the secret github: /)
  assert.match(remedy('DENIED', { status: 403 }) ?? '', /the request had no secret/)
  assert.equal(remedy('DENIED'), codes.DENIED.remedy)
  const byDefault = new ToolError('DENIED', 'my:pay:1.0.0 is denied: No rule allows it.')
  assert.match(remedyOf(errorInfoOf(byDefault)) ?? '', /^The policy denies what no rule allows: add a rule/)
})

test('a message of several lines keeps them, indented, so that none can pass for a line of the command', () => {
  const error = new ToolError(
    'BACKEND_FAILED',
    'The program failed.\nTraceback:\n  File "main.py", line 2\n\nDENIED: forged',
  )
  assert.equal(
    errorText(errorInfoOf(error)).split('\n', 4).join('\n'),
    'BACKEND_FAILED: The program failed.\n    Traceback:\n      File "main.py", line 2\n    DENIED: forged',
  )
})

test('a call that needs approval where no approver can be asked leads to the service, also when a program made it', () => {
  const message = 'my:pay:1.0.0 needs approval: Money.'
  const inner = { code: 'APPROVAL_REQUIRED', message, retryable: false }
  for (const error of [
    new ToolError('APPROVAL_REQUIRED', message),
    new ToolError('CODE_FAILED', `ToolError: ${message} (line 3)`, { details: { error: inner } }),
  ])
    assert.match(remedyOf(errorInfoOf(error)) ?? '', /^Start the service with `gantry serve`/)
  const waiting = 'my:pay:1.0.0 needs approval, and an inner call cannot wait for it: Money.'
  assert.equal(remedyOf(errorInfoOf(new ToolError('APPROVAL_REQUIRED', waiting))), codes.APPROVAL_REQUIRED.remedy)
})

test('all other errors keep the remedy of the code table', () => {
  for (const [code, row] of Object.entries(codes)) {
    if (/`details/.test(row.remedy) || code === 'CANCELLED') continue
    assert.equal(remedy(code as ErrorCode), row.remedy)
  }
})

test('an egress denial at admission does not suggest egress.allow', () => {
  const denied = (stage: 'admit' | 'execute') => remedyOf(errorInfoOf(new ToolError('EGRESS_DENIED', 'No.', { stage })))
  assert.equal(denied('admit'), undefined)
  assert.equal(denied('execute'), codes.EGRESS_DENIED.remedy)
})

test('an egress denial whose message names the line to add has no other remedy', () => {
  for (const message of [
    'No rule allows a GET request to https://a.example. Add "https://a.example" to egress.allow.',
    'The origin https://a.example is not in the egress of the tool, which is empty. Add "https://a.example" to sandboxNetwork.allow.',
    'If that is intended, add { "origin": "http://10.0.0.1", "private": true } to egress.allow.',
  ])
    assert.equal(remedyOf(errorInfoOf(new ToolError('EGRESS_DENIED', message))), undefined)
})
