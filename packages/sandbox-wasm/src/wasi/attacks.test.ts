import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attackTest } from '../attack-test.fixture.ts'
import { pageBytes, webAssembly } from '../guest/binary.ts'
import { createBench, type RunOptions } from '../run.fixture.ts'
import { assemble, exitWith, i32, i64, op, wasi } from './assemble.fixture.ts'

const bench = createBench()
const text = (value: string): Uint8Array => new TextEncoder().encode(value)
const [fault, notcapable, notsup, nosys, noent] = [21, 76, 58, 52, 44]
const small: RunOptions = { limits: { memoryBytes: 20 * pageBytes } }

/** Grows by a page until that fails, then gives up. */
const growing = [
  ...op.block(op.loop([...op.growMemory(1), ...op.i32(-1), ...op.equal, ...op.branchIf(1), ...op.branch(0)])),
  ...op.unreachable,
]

attackTest('94: memory grows only up to the limit, and the run reports memoryBytes as hit', async () => {
  const module = assemble({ body: growing })
  const { hit, usage } = await bench.wasi(module, small)
  assert.equal(hit, 'memoryBytes')
  assert.equal(usage.memoryPeakBytes, 20 * pageBytes)
})

attackTest('94: a table cannot grow without bound', async () => {
  const body = [
    ...op.block(op.loop([...op.growTable(100_000), ...op.i32(-1), ...op.equal, ...op.branchIf(1), ...op.branch(0)])),
    ...op.i32(7),
    ...op.call(0),
  ]
  const { exit } = await bench.wasi(assemble({ imports: [['proc_exit', [i32]]], tables: [[0x6f, 0, 1]], body }))
  assert.deepEqual(exit, { code: 7 })
})

attackTest('95: the wall limit and the CPU limit end an endless loop', async () => {
  const module = assemble({ body: op.loop(op.branch(0)) })
  const wall = await bench.wasi(module, { limits: { wallMs: 100, cpuMs: 100 } })
  assert.deepEqual([wall.hit, wall.exit], ['wallMs', { signal: 'SIGKILL' }])
  const cpu = await bench.wasi(module, { limits: { cpuMs: 50 } })
  assert.equal(cpu.hit, 'cpuMs')
})

attackTest('96: endless recursion traps the program', async () => {
  const { exit, stderr } = await bench.wasi(assemble({ body: op.call(0) }))
  assert.deepEqual(exit, { code: 134 })
  assert.match(stderr, /^wasm trap: Maximum call stack/)
})

attackTest(
  '97: a module of 100 MB is refused before it is compiled, and an invalid one gives an ordinary outcome',
  async () => {
    const large = await bench.wasi(new Uint8Array(100_000_000))
    assert.match(large.stderr, /larger than/)
    const wrong = await bench.wasi(assemble({ body: op.drop }))
    assert.deepEqual(wrong.exit, { code: 1 })
    assert.match(wrong.stderr, /cannot be run/)
  },
)

attackTest('97: a module with 900,000 functions compiles or is refused without hanging', async () => {
  const count = 900_000
  const functions = Buffer.alloc(count)
  const bodies = Buffer.concat([Buffer.from([0xa0, 0xf7, 0x36]), Buffer.alloc(count * 3, Buffer.from([2, 0, 0x0b]))])
  const section = (id: number, body: Buffer): Buffer => {
    const size = Buffer.alloc(5, 0x80)
    for (let index = 0, rest = body.length; index < 5; index++, rest >>>= 7)
      size[index] = (rest & 0x7f) | (index < 4 ? 0x80 : 0)
    return Buffer.concat([Buffer.from([id]), size, body])
  }
  const module = Buffer.concat([
    Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0]),
    section(3, Buffer.concat([Buffer.from([0xa0, 0xf7, 0x36]), functions])),
    section(7, Buffer.from([1, 6, ...Buffer.from('_start'), 0, 0])),
    section(10, bodies),
  ])
  const { exit } = await bench.wasi(module)
  assert.deepEqual(exit, { code: 0 })
})

const openParameters = [i32, i32, i32, i32, i32, i64, i64, i32, i32]
const opening = (path: string): Uint8Array =>
  exitWith(
    'path_open',
    openParameters,
    [
      op.i32(3),
      op.i32(0),
      op.i32(16),
      op.i32(path.length),
      op.i32(0),
      op.i64(2),
      op.i64(0),
      op.i32(0),
      op.i32(8),
    ].flat(),
    { data: [[16, text(path)]] },
  )

attackTest('98: a path that leaves the workspace is refused, and one inside it is opened', async () => {
  const options = { job: { files: new Map([['in/side', text('x')]]) } }
  for (const [path, code] of [
    ['in/side', 0],
    ['in/../in/side', 0],
    ['../etc/passwd', notcapable],
    ['in/../../x', notcapable],
    ['/etc/passwd', notcapable],
    ['etc/passwd', noent],
  ] as const) {
    assert.deepEqual((await bench.wasi(opening(path), options)).exit, { code }, path)
  }
})

attackTest('98: symbolic and hard links cannot be created', async () => {
  const paths = { data: [[16, text('in')]] as const }
  const link = [op.i32(3), op.i32(0), op.i32(16), op.i32(2), op.i32(3), op.i32(16), op.i32(2)].flat()
  const symlink = [op.i32(16), op.i32(2), op.i32(3), op.i32(16), op.i32(2)].flat()
  const hard = await bench.wasi(exitWith('path_link', [i32, i32, i32, i32, i32, i32, i32], link, paths))
  const soft = await bench.wasi(exitWith('path_symlink', [i32, i32, i32, i32, i32], symlink, paths))
  assert.deepEqual([hard.exit, soft.exit], [{ code: notsup }, { code: notsup }])
})

/** Calls with one address in them, and how they look with a good and with a bad one. */
const pointers: readonly (readonly [name: string, parameters: readonly number[], code: (at: number) => number[]])[] = [
  ['fd_write', [i32, i32, i32, i32], (at) => [op.i32(1), op.i32(at), op.i32(1), op.i32(8)].flat()],
  ['fd_read', [i32, i32, i32, i32], (at) => [op.i32(0), op.i32(at), op.i32(1), op.i32(8)].flat()],
  ['random_get', [i32, i32], (at) => [op.i32(at), op.i32(64)].flat()],
  ['args_sizes_get', [i32, i32], (at) => [op.i32(at), op.i32(at)].flat()],
  ['environ_get', [i32, i32], (at) => [op.i32(at), op.i32(at)].flat()],
  ['clock_time_get', [i32, i64, i32], (at) => [op.i32(0), op.i64(0), op.i32(at)].flat()],
  ['fd_fdstat_get', [i32, i32], (at) => [op.i32(1), op.i32(at)].flat()],
  ['fd_filestat_get', [i32, i32], (at) => [op.i32(3), op.i32(at)].flat()],
  ['fd_prestat_dir_name', [i32, i32, i32], (at) => [op.i32(3), op.i32(at), op.i32(5)].flat()],
  ['fd_readdir', [i32, i32, i32, i64, i32], (at) => [op.i32(3), op.i32(at), op.i32(64), op.i64(0), op.i32(8)].flat()],
]

attackTest('99: WASI calls fail for addresses outside of the memory and work for those inside', async () => {
  for (const [name, parameters, code] of pointers) {
    const good = await bench.wasi(exitWith(name, parameters, code(1_024)))
    assert.deepEqual(good.exit, { code: 0 }, name)
    for (const at of [65_535, 65_536, 0x7fff_fff0, -1, -8]) {
      const bad = await bench.wasi(exitWith(name, parameters, code(at)))
      assert.deepEqual(bad.exit, { code: fault }, `${name} at ${at}`)
    }
  }
})

attackTest('99: WASI calls fail for lengths beyond the memory and for endless lists', async () => {
  const long = [
    op.store(1_024, op.i32(2_048)),
    op.store(1_028, op.i32(-1)),
    op.i32(1),
    op.i32(1_024),
    op.i32(1),
    op.i32(8),
  ]
  const write = await bench.wasi(exitWith('fd_write', [i32, i32, i32, i32], long.flat()))
  assert.deepEqual(write.exit, { code: fault })
  const many = [op.i32(1), op.i32(0), op.i32(-1), op.i32(8)].flat()
  assert.deepEqual((await bench.wasi(exitWith('fd_write', [i32, i32, i32, i32], many))).exit, { code: 28 })
})

test('an unknown WASI call returns ENOSYS, and a module that imports more than WASI is refused', async () => {
  const unknown = await bench.wasi(exitWith('sock_accept', [i32, i32, i32], [op.i32(1), op.i32(0), op.i32(0)].flat()))
  assert.deepEqual(unknown.exit, { code: nosys })
  const foreign = assemble({ imports: [['proc_exit', [i32]]], body: [] })
  const at = Buffer.from(foreign).indexOf(wasi)
  foreign[at] = 'x'.charCodeAt(0)
  assert.match((await bench.wasi(foreign)).stderr, /cannot be run/)
})

test('proc_exit ends a program that catches exceptions', async () => {
  const body = [0x06, 0x40, ...op.i32(3), ...op.call(0), 0x19, 0x0b, ...op.i32(4), ...op.call(0)]
  const { exit } = await bench.wasi(assemble({ imports: [['proc_exit', [i32]]], body }))
  assert.deepEqual(exit, { code: 3 })
})

test('the control of 94: without the cap the same module gets more memory', () => {
  const module = assemble({ body: [...op.growMemory(100), ...op.drop] })
  const { exports } = new webAssembly.Instance(new webAssembly.Module(module), {})
  const { _start: start, memory } = exports as { _start(): void; memory: { buffer: ArrayBuffer } }
  start()
  assert.equal(memory.buffer.byteLength, 101 * pageBytes)
})
