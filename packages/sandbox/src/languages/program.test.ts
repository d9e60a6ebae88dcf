import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createLanguages } from './languages.ts'
import { codeProgram, shellProgram } from './program.ts'

const languages = createLanguages()

function pathOf(work: () => unknown): string | undefined {
  try {
    work()
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'INPUT_INVALID', String(error))
    return error.details?.issues?.[0]?.path
  }
  return undefined
}

test('codeProgram uses the canonical name of the language', () => {
  const program = codeProgram({ language: 'PY', code: 'print(1)\0' }, languages)
  assert.deepEqual(program, { kind: 'code', language: 'python', code: 'print(1)\0' })
})

test('code in an unknown language, with lone surrogates or over a megabyte is refused', () => {
  assert.equal(
    pathOf(() => codeProgram({ language: 'cobol', code: '' }, languages)),
    '/language',
  )
  assert.equal(
    pathOf(() => codeProgram({ language: 'python', code: '\udc00' }, languages)),
    '/code',
  )
  assert.equal(
    pathOf(() => codeProgram({ language: 'python', code: 'é'.repeat(524_289) }, languages)),
    '/code',
  )
  assert.equal(
    pathOf(() => codeProgram({ language: 'python', code: 'é'.repeat(524_288) }, languages)),
    undefined,
  )
})

test('shellProgram keeps argv and script unchanged', () => {
  const argv = ['printf', '%s', '', '$(id); rm -rf /', '--', "'"]
  assert.deepEqual(shellProgram({ argv }), { kind: 'argv', argv })
  assert.deepEqual(shellProgram({ script: '' }), { kind: 'script', script: '' })
})

test('shellProgram needs exactly one of argv and script', () => {
  assert.equal(
    pathOf(() => shellProgram({})),
    '',
  )
  assert.equal(
    pathOf(() => shellProgram({ argv: ['a'], script: 'b' })),
    '/script',
  )
})

test('an argv that the kernel would refuse is refused before a sandbox starts', () => {
  assert.equal(
    pathOf(() => shellProgram({ argv: [] })),
    '/argv/0',
  )
  assert.equal(
    pathOf(() => shellProgram({ argv: ['', 'x'] })),
    '/argv/0',
  )
  assert.equal(
    pathOf(() => shellProgram({ argv: ['a', 'b\0c'] })),
    '/argv/1',
  )
  assert.equal(
    pathOf(() => shellProgram({ argv: ['a', '\ud800'] })),
    '/argv/1',
  )
  assert.equal(
    pathOf(() => shellProgram({ argv: ['a', 'x'.repeat(131_072)] })),
    '/argv/1',
  )
  assert.equal(
    pathOf(() => shellProgram({ argv: new Array(1_025).fill('a') })),
    '/argv',
  )
  assert.equal(
    pathOf(() => shellProgram({ argv: new Array(9).fill('x'.repeat(131_071)) })),
    '/argv',
  )
  assert.equal(
    pathOf(() => shellProgram({ script: 'x'.repeat(1_048_577) })),
    '/script',
  )
})
