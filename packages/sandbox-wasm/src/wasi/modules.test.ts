import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBench, limits } from '../run.fixture.ts'
import { assemble, exitWith, i32, i64, op } from './assemble.fixture.ts'

const bench = createBench()
const text = (value: string): Uint8Array => new TextEncoder().encode(value)
const iovs = [i32, i32, i32, i32]

/** Code that gives a list of one piece, at 0, of these bytes at 16, to a call on a descriptor. */
const piece = (fd: number, length: number): number[] =>
  [op.store(0, op.i32(16)), op.store(4, op.i32(length)), op.i32(fd), op.i32(0), op.i32(1), op.i32(8)].flat()

test('a module writes to stdout and stderr and sets its exit code', async () => {
  const body = [
    ...piece(1, 3),
    ...op.call(0),
    ...op.drop,
    ...piece(2, 2),
    ...op.call(0),
    ...op.drop,
    ...op.i32(9),
    ...op.call(1),
  ]
  const module = assemble({
    imports: [
      ['fd_write', iovs],
      ['proc_exit', [i32]],
    ],
    body,
    data: [[16, text('hey')]],
  })
  const { stdout, stderr, exit } = await bench.wasi(module)
  assert.deepEqual({ stdout, stderr, exit }, { stdout: 'hey', stderr: 'he', exit: { code: 9 } })
})

test('a module that returns exits with 0, a trap with 134', async () => {
  assert.deepEqual((await bench.wasi(assemble({ body: [] }))).exit, { code: 0 })
  const trap = await bench.wasi(assemble({ body: op.unreachable }))
  assert.deepEqual([trap.exit, trap.stderr, trap.hit], [{ code: 134 }, 'wasm trap: unreachable\n', undefined])
})

test('stdin is read to its end', async () => {
  const body = [...piece(0, 64), ...op.call(0), ...op.drop, ...op.load(8), ...op.call(1)]
  const module = assemble({
    imports: [
      ['fd_read', iovs],
      ['proc_exit', [i32]],
    ],
    body,
  })
  assert.deepEqual((await bench.wasi(module, { job: { stdin: text('seven!!') } })).exit, { code: 7 })
})

test('a module gets the arguments of the job', async () => {
  const module = exitWith('args_sizes_get', [i32, i32], [...op.i32(0), ...op.i32(4)])
  const count = assemble({
    imports: [
      ['args_sizes_get', [i32, i32]],
      ['proc_exit', [i32]],
    ],
    body: [...op.i32(0), ...op.i32(4), ...op.call(0), ...op.drop, ...op.load(0), ...op.call(1)],
  })
  assert.deepEqual((await bench.wasi(module)).exit, { code: 0 })
  const program = { kind: 'wasi', module: count, argv: ['program', 'a', 'b'] } as const
  assert.deepEqual((await bench.wasi(count, { job: { program } })).exit, { code: 3 })
})

test('a file that a module creates is collected, and one that does not fit ends the run', async () => {
  const open = [
    op.i32(3),
    op.i32(0),
    op.i32(16),
    op.i32(3),
    op.i32(1),
    op.i64(64),
    op.i64(0),
    op.i32(0),
    op.i32(8),
  ].flat()
  const writing = (bytes: number): Uint8Array =>
    assemble({
      imports: [
        ['path_open', [i32, i32, i32, i32, i32, i64, i64, i32, i32]],
        ['fd_write', iovs],
        ['proc_exit', [i32]],
      ],
      memories: [[0, 100]],
      body: [
        ...[...open, ...op.call(0), ...op.drop],
        ...[...op.store(0, op.i32(16)), ...op.store(4, op.i32(bytes))],
        ...[...op.load(8), ...op.i32(0), ...op.i32(1), ...op.i32(12), ...op.call(1), ...op.call(2)],
      ],
      data: [[16, text('out')]],
    })
  const collect = { files: 5, bytes: limits.diskBytes }
  const fits = await bench.wasi(writing(5), { job: { collect } })
  assert.deepEqual(fits.exit, { code: 0 })
  assert.deepEqual([...fits.outcome.files], [['out', Uint8Array.of(...text('out'), 0, 0)]])
  const tooLarge = await bench.wasi(writing(limits.diskBytes), { job: { collect } })
  assert.deepEqual([tooLarge.exit, tooLarge.hit], [{ code: 51 }, 'diskBytes'])
})

test('a module sleeps by the clock and continues', async () => {
  // A subscription at 0: a wait of one millisecond on the monotonic clock.
  const subscription = new Uint8Array(48)
  new DataView(subscription.buffer).setUint32(16, 1, true)
  new DataView(subscription.buffer).setBigUint64(24, 1_000_000n, true)
  const code = [op.i32(0), op.i32(64), op.i32(1), op.i32(128)].flat()
  const { exit } = await bench.wasi(exitWith('poll_oneoff', iovs, code, { data: [[0, subscription]] }))
  assert.deepEqual(exit, { code: 0 })
})

test('with a seed and a fixed clock the same module gives the same bytes, and without them different ones', async () => {
  const body = [
    ...[...op.i32(16), ...op.i32(32), ...op.call(0), ...op.drop],
    ...[...op.i32(0), ...op.i64(0), ...op.i32(48), ...op.call(1), ...op.drop],
    ...[...piece(1, 40), ...op.call(2), ...op.drop],
  ]
  const module = assemble({
    imports: [
      ['random_get', [i32, i32]],
      ['clock_time_get', [i32, i64, i32]],
      ['fd_write', iovs],
    ],
    body,
  })
  const deterministic = { seed: 7, nowMs: 1_700_000_000_000 }
  const run = async (spec: object): Promise<string> => {
    const { outcome } = await bench.wasi(module, { spec })
    return Buffer.from(outcome.stdout.bytes).toString('hex')
  }
  const once = await run({ deterministic })
  assert.equal(once, await run({ deterministic }))
  assert.notEqual(once, await run({ deterministic: { ...deterministic, seed: 8 } }))
  assert.notEqual(await run({}), await run({}))
})

test('output above its limit is truncated and counted, and a flood ends the module', async () => {
  const once = assemble({ imports: [['fd_write', iovs]], body: [...piece(1, 1_000), ...op.call(0), ...op.drop] })
  const cut = await bench.wasi(once, { limits: { stdoutBytes: 10 } })
  assert.deepEqual([cut.stdout.length, cut.outcome.stdout.total, cut.outcome.stdout.truncated], [10, 1_000, true])
  const endless = assemble({
    imports: [['fd_write', iovs]],
    body: op.loop([...piece(1, 60_000), ...op.call(0), ...op.drop, ...op.branch(0)]),
  })
  const flood = await bench.wasi(endless, { limits: { stdoutBytes: 10 } })
  assert.deepEqual([flood.hit, flood.stdout.length], ['stdoutBytes', 10])
})
