import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { errorInfoOf, errorText, exitCodeOf } from './errors.ts'

test('an error is printed with its failing paths, its cause, near names and its remedy', () => {
  const error = new ToolError('CONFIG_INVALID', 'Two problems.', {
    cause: new SyntaxError('odd \x1b[2J token'),
    details: { issues: [{ path: '/a', message: 'must be number' }], nearest: ['demo:add', 'demo:and'] },
  })
  assert.equal(
    errorText(errorInfoOf(error)),
    [
      'CONFIG_INVALID: Two problems.',
      '  /a must be number',
      '  because of SyntaxError: odd \\e[2J token',
      'Did you mean demo:add or demo:and?',
      'Correct the key at the path in `details.issues`; `gantry config check` lists them all.',
      '',
    ].join('\n'),
  )
})

test('errorInfoOf turns any thrown value into an error with a code and its cause', () => {
  const info = errorInfoOf(new RangeError('out of range', { cause: 'a string' }))
  assert.equal(info.code, 'INTERNAL')
  assert.deepEqual(info.cause, {
    name: 'RangeError',
    message: 'out of range',
    cause: { name: 'string', message: 'a string' },
  })
  assert.equal(exitCodeOf({ error: info }), 1)
  assert.equal(exitCodeOf({}), 0)
})

test('errorInfoOf reports a cause that throws when it is read', () => {
  const throwing = { get: () => assert.fail() }
  const hostile = Object.defineProperties(new Error('x'), { name: throwing, message: throwing, stack: throwing })
  const said = { message: 'reading it throws' }
  assert.deepEqual(errorInfoOf(hostile).cause, { name: 'object', ...said })
  assert.deepEqual(errorInfoOf({ toString: () => assert.fail() }).cause, { name: 'object', ...said })
  const odd = Object.assign(new Error('x'), { name: Symbol('odd'), message: 5 })
  assert.deepEqual(errorInfoOf(odd).cause, { name: 'Symbol(odd)', message: '5' })
})
