import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { demoTools } from '@gantry/tools/internal/demo'

const gantry = createExecutor({ tools: [...demoTools(), ...builtinTools()] })
after(() => gantry.close())

const run = (code: string): Promise<Result> => gantry.code(code, { language: 'javascript' })

test('an unreadable error is CODE_FAILED, not an exceeded memory limit', async () => {
  const programs = [
    'throw new Proxy(new Error("x"), { get() { throw 1 } })',
    'throw { get constructor() { throw 1 } }',
    'Object.prototype.toJSON = () => null; throw new Error("x")',
    'Object.prototype.toJSON = () => undefined; throw new Error("x")',
    'return { get a() { throw new Proxy(new Error("x"), { get() { throw 1 } }) } }',
  ]
  for (const program of programs) {
    const { error } = await run(program)
    assert.equal(error?.code, 'CODE_FAILED', program)
    assert.match(error?.message ?? '', /cannot be inspected/, program)
  }
})

test('a program that breaks the built-ins of its gateway fails with an error about that', async () => {
  const bends = [
    'Array.prototype.push = function (x) { this[this.length] = x; this[this.length] = x; return 1 }',
    'Array.prototype.join = () => { throw 1 }',
  ]
  for (const bend of bends) {
    const { error } = await run(`${bend}\nawait Promise.all([1, 2].map((a) => tools.demo.add({ a, b: 1 })))`)
    assert.equal(error?.code, 'CODE_FAILED', bend)
    assert.match(error?.message ?? '', /changed .* of the language/, bend)
  }
})

test('an error with "out of memory" in its message is CODE_FAILED', async () => {
  const { error } = await run('throw new Error("out of memory, says the printer")')
  assert.deepEqual([error?.code, error?.message.includes('printer')], ['CODE_FAILED', true])
})

test('an unreadable error of a script is not reported as an exceeded memory limit', async () => {
  const code = 'throw new Proxy(new Error("x"), { get() { throw 1 } })'
  const { error, output } = await gantry.run('code:run', { language: 'javascript', runtime: 'wasm', code })
  assert.equal(JSON.stringify([error, output]).includes('memoryBytes'), false)
  assert.match(JSON.stringify([error, output]), /cannot be inspected/)
})

test('an impossible position in a forged stack does not change the error of the program', async () => {
  for (const stack of ['main.js:2:0', 'main.js:0:5']) {
    const { error } = await run(`throw Object.assign(new Error('x'), { name: 'Own', stack: '${stack}' })\nreturn 1`)
    assert.deepEqual([error?.code, error?.message.includes('x')], ['CODE_FAILED', true], stack)
  }
})
