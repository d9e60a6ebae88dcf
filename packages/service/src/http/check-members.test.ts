import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { memberCheck } from './request-input.ts'

const check = memberCheck('The body', { tool: { type: 'string' }, args: { type: 'object' } }, ['tool'])

function refused(value: Parameters<typeof check>[0]): ToolError {
  try {
    check(value)
  } catch (error) {
    if (ToolError.is(error)) return error
    throw error
  }
  return assert.fail('it was taken')
}

test('of many unknown members only the first are compared and reported', () => {
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`member${index}`, 1]))
  const { code, details } = refused({ tool: 'a:b', ...many })
  assert.equal(code, 'PAYLOAD_INVALID')
  assert.deepEqual(
    details?.issues?.map(({ path }) => path),
    Array.from({ length: 20 }, (_, index) => `/member${index}`),
  )
  assert.equal(refused({ args: 1, ...many }).details?.issues?.length, 20, 'also when known ones are wrong')
})

test('an unknown member is reported with the nearest known name, however long it is', () => {
  assert.deepEqual(refused({ tol: 'a:b', ['x/~'.repeat(50_000)]: 1 }).details?.issues, [
    { path: '/tol', message: 'is not known here (did you mean "tool"?)' },
    {
      path: `/${'x/~'.repeat(22).slice(0, 64).replaceAll('~', '~0').replaceAll('/', '~1')}`,
      message: 'is not known here',
    },
    { path: '', schemaPath: '/required', keyword: 'required', message: 'must have the property "tool"' },
  ])
})
