import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { noBubblewrap } from '@gantry/conformance/internal/sandbox-test'
import type { Json, JsonObject } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from './builtin.ts'

const gantry = createExecutor({ tools: builtinTools() })
after(() => gantry.close())

const python = `
import datetime, os, random, time, uuid
print(random.random(), os.urandom(4).hex(), uuid.uuid4(), uuid.uuid1(), time.time(), datetime.datetime.now().year)
return [list(set('hello world')), hash('a'), random.sample(range(100), 5), time.monotonic()]`
const javascript = `
console.log(Math.random(), Date.now(), new Date().toISOString(), crypto.randomUUID())
return [Array.from({ length: 4 }, () => Math.random()), performance.now()]`
const programs: { readonly [language: string]: string } = {
  python,
  javascript,
  typescript: `const n: number = Math.random(); console.log(n, Date.now()); return n`,
}
const run = async (args: JsonObject) => {
  const { status, output, error } = await gantry.run('code:run', args)
  return { status, error, output: output as JsonObject }
}

for (const runtime of ['wasm', 'process']) {
  for (const [language, code] of Object.entries(programs)) {
    const skip = runtime === 'process' && noBubblewrap !== undefined ? noBubblewrap : false
    test(`the same seed and time give the same output of ${language} in ${runtime}`, { skip }, async () => {
      const of = (deterministic: JsonObject | true) => run({ language, code, runtime, deterministic })
      const first = await of({ seed: 7, now: 1_700_000_000_000 })
      assert.equal(first.status, 'ok', JSON.stringify(first.error))
      const [again, other, usual, unseeded] = await Promise.all([
        of({ seed: 7, now: '2023-11-14T22:13:20Z' }),
        of({ seed: 8, now: 1_700_000_000_000 }),
        of(true),
        of({ now: 946_684_800_000 }),
      ])
      assert.deepEqual(again.output, first.output)
      assert.notDeepEqual(other.output, first.output)
      assert.deepEqual(usual.output, unseeded.output)
    })
  }
}

const everySource = `
const crypto = require('node:crypto')
const os = require('node:os')
const called = (work) => new Promise((resolve, reject) => work((error, value) => (error ? reject(error) : resolve(value))))
const view = new Uint16Array(4)
return [
  crypto.randomInt(1e9), crypto.randomInt(5, 2 ** 47), await called((done) => crypto.randomInt(10, 1e9, done)),
  Buffer.from(await called((done) => crypto.randomFill(Buffer.alloc(8), done))).toString('hex'),
  (await called((done) => crypto.randomFill(Buffer.alloc(8), 2, 4, done))).toString('hex'),
  crypto.randomFillSync(Buffer.alloc(8), 6).toString('hex'), crypto.randomFillSync(Buffer.alloc(8), 1, 2).toString('hex'),
  Buffer.from(crypto.randomFillSync(new ArrayBuffer(8))).toString('hex'), [...crypto.randomFillSync(view, 1, 2)],
  performance.timeOrigin, os.uptime(), new Intl.DateTimeFormat('en').format(),
  new Intl.DateTimeFormat('en').formatToParts(), new Intl.DateTimeFormat('en').format(0), new Date().toLocaleString(),
]`

test('random integers, fills, the start time, the uptime and date formats are deterministic in process', {
  skip: noBubblewrap,
}, async () => {
  const of = async (deterministic: JsonObject) => {
    const { output, error } = await run({
      language: 'javascript',
      code: everySource,
      runtime: 'process',
      deterministic,
    })
    return (output?.value ?? assert.fail(JSON.stringify(error ?? output))) as readonly Json[]
  }
  const [first, again, other] = await Promise.all([of({ seed: 3 }), of({ seed: 3 }), of({ seed: 4 })])
  assert.deepEqual(again, first)
  for (let index = 0; index < 9; index++) assert.notDeepEqual(other[index], first[index], String(index))
  assert.match(String(first[4]), /^0000[\da-f]{8}0000$/)
  assert.match(String(first[5]), /^0{12}/)
  assert.match(String(first[6]), /^00[\da-f]{4}0{10}$/)
  assert.deepEqual([(first[8] as number[])[0], (first[8] as number[])[3]], [0, 0])
  assert.deepEqual(first.slice(9, 12), [946_684_800_000, 0, '1/1/2000'])
  assert.equal(first[13], '1/1/1970')
})

test('a language without determinism is refused by name, and so is an invalid time', async () => {
  const shell = await run({ language: 'bash', code: 'echo $RANDOM', deterministic: true })
  assert.equal(shell.error?.code, 'RUNTIME_UNAVAILABLE')
  assert.match(shell.error?.message ?? '', /A program in bash cannot be made deterministic here\. Use one of python/)
  for (const now of [
    'yesterday',
    '2026-01-01',
    '2026-01-01T00:00:00',
    '+100000-01-01T00:00:00Z',
    300_000_000_000_000,
  ]) {
    const { error } = await run({ language: 'python', code: 'return 1', deterministic: { now } })
    const [issue] = (error?.details?.issues ?? []) as { readonly path: string }[]
    assert.deepEqual([error?.code, issue?.path], ['INPUT_INVALID', '/deterministic/now'])
  }
})

test('invalid `deterministic` options are refused with the failing path', async () => {
  const cases: readonly (readonly [Json, string])[] = [
    [{ seed: 'x' }, '/deterministic/seed'],
    [{ seed: -1 }, '/deterministic/seed'],
    [{ seed: 1.5 }, '/deterministic/seed'],
    [{ now: -5 }, '/deterministic/now'],
    [{ now: true }, '/deterministic/now'],
    [{ foo: 1 }, '/deterministic/foo'],
    ['yes', '/deterministic'],
  ]
  for (const [deterministic, path] of cases) {
    const { error } = await run({ language: 'javascript', code: 'return 1', deterministic })
    const issues = (error?.details?.issues ?? []) as { readonly path: string }[]
    assert.deepEqual([error?.code, issues.map((issue) => issue.path)], ['INPUT_INVALID', [path]])
  }
})

test('deterministic: false leaves the clock and the random numbers as they are', async () => {
  const { output } = await run({ language: 'javascript', code: 'return Date.now()', deterministic: false })
  assert.ok((output.value as number) > Date.parse('2020-01-01'), JSON.stringify(output))
})
