import assert from 'node:assert/strict'
import { test } from 'node:test'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

async function gantry(folder: string, ...line: string[]): Promise<{ code: number; out: string; err: string }> {
  const io = keptIo({ folder })
  const code = await runCommandLine(line, io)
  return { code, ...io.printed }
}

test('bench calls a tool for a duration and prints the number of calls and their latency', async () => {
  using folder = folderWith({})
  const { code, out } = await gantry(folder.path, 'bench', '--seconds', '1', '--concurrency', '2', '--json')
  assert.equal(code, 0)
  const figures = JSON.parse(out) as { [name: string]: number | string }
  assert.equal(figures.tool, 'demo:add')
  assert.ok(Number(figures.calls) > 0 && figures.failed === 0)
  assert.ok(Number(figures.p50Ms) <= Number(figures.p99Ms) && Number(figures.p99Ms) <= Number(figures.maxMs))
})

test('bench exits with 1 when calls fail, and counts the failures by code', async () => {
  using folder = folderWith({})
  const { code, out } = await gantry(
    folder.path,
    'bench',
    'demo:fail',
    '{"message":"no"}',
    '--seconds',
    '1',
    '--concurrency',
    '1',
  )
  assert.equal(code, 1)
  assert.match(out, /^demo:fail: \d+ calls in .* a second, ([1-9]\d*) failed\n\1 × BACKEND_FAILED\n/)
  const json = await gantry(
    folder.path,
    'bench',
    'demo:fail',
    '{"message":"no"}',
    '--seconds',
    '1',
    '--concurrency',
    '1',
    '--json',
  )
  const { failed, failures } = JSON.parse(json.out) as { failed: number; failures: object }
  assert.deepEqual([json.code, failures], [1, { BACKEND_FAILED: failed }])
})

test('bench stops at an error that every call would meet, prints it and exits with its code', async () => {
  using folder = folderWith({})
  for (const [words, code] of [
    [['nope:x'], 'TOOL_NOT_FOUND'],
    [['nope'], 'TOOL_ID_INVALID'],
    [['demo:add', '{"a":"x"}'], 'INPUT_INVALID'],
  ] as const) {
    // Measuring for so long would outlast the test.
    const bench = await gantry(folder.path, 'bench', ...words, '--seconds', '100000', '--json')
    const run = await gantry(folder.path, 'run', ...words, '--json')
    assert.equal(bench.code, run.code)
    assert.match(bench.err, new RegExp(`${code}: `))
    assert.equal((JSON.parse(bench.out) as { error: { code: string } }).error.code, code)
  }
})

test('backends lists the backends that a tool is bound to, each with its state', async () => {
  using none = folderWith({ 'gantry.config.json': '{"builtins": false}' })
  const without = await gantry(none.path, 'backends', '--json')
  assert.deepEqual(JSON.parse(without.out), { items: [] })
  using folder = folderWith({})
  const all = await gantry(folder.path, 'backends', '--json')
  const states = (JSON.parse(all.out) as { items: { key: string; status: string }[] }).items
  assert.deepEqual(
    states.filter(({ status }) => status === 'unknown'),
    [],
  )
  assert.ok(states.some(({ key, status }) => key === 'local' && status === 'up'))
})
