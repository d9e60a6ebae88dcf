import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pythonAttack } from '../guest/self-test.ts'
import { createBench, limits, readable } from '../run.fixture.ts'
import { createWasmRuntime } from '../wasm.ts'
import { createFrameReader } from './frames.ts'
import { type HostProcess, spawnPlainly, usageOf } from './host-process.ts'

const bench = createBench()
const py = (code: string, options = {}) => bench.code('python', code, options)
const text = (value: string): Uint8Array => new TextEncoder().encode(value)
const signal = AbortSignal.timeout(120_000)

/** Python that finds its way to the language below it, as a review did. */
const reachJavaScript = `import gc
gc.unfreeze()
names = {}
for it in gc.get_objects():
    if isinstance(it, dict) and isinstance(it.get('__name__'), str): names.setdefault(it['__name__'], it)
to_js = names['_pyodide_core']['to_js']
FS = names['pyodide._state']['jsfinder'].jsproxies['pyodide_js'].FS
Object = to_js({}).constructor
Array = to_js([1]).constructor
Bytes = to_js(b'1').constructor
push = Array.prototype.push`

test('a Python program prints, returns, awaits, reads stdin and files, and its files are collected', async () => {
  const { stdout, stderr, value, outcome, exit, skipped } = await py(
    `import asyncio, os, sys
print(open('in/a.txt').read(), sys.stdin.read(), os.environ['NAME'], os.getcwd())
print('err', file=sys.stderr)
async def slow(word):
    await asyncio.sleep(0.01)
    return word
os.makedirs('out')
open('out/b.txt', 'w').write('made')
os.symlink('/etc/passwd', 'link')
return await asyncio.gather(slow('x'), slow('y'))`,
    {
      job: {
        files: new Map([['in/a.txt', text('file')]]),
        stdin: text('input'),
        env: { NAME: 'value' },
        collect: { files: 9, bytes: 999 },
      },
    },
  )
  assert.deepEqual(
    { stdout, stderr, exit, value },
    {
      stdout: 'file input value /work\n',
      stderr: 'err\n',
      exit: { code: 0 },
      value: ['x', 'y'],
    },
  )
  assert.deepEqual([...outcome.files.keys()], ['in/a.txt', 'out/b.txt'])
  assert.deepEqual(skipped, [{ path: 'link', reason: 'a symbolic link' }])
})

test('a Python program reaches neither JavaScript nor host files, processes or network', async () => {
  const { program } = pythonAttack
  assert.ok(program.kind === 'code')
  const { value } = await py(program.code)
  const { found, seen } = value as { found: unknown; seen: number }
  assert.deepEqual(found, [])
  assert.ok(seen > 10, 'there was something to look through')
  const control = (await unguarded(program.code)) as { found: string[] }
  for (const way of ['import js', 'constructor.constructor'])
    assert.ok(control.found.includes(way), String(control.found))
})

test('with a seed and a fixed clock the same code gives the same result, and without them a different one', async () => {
  const code = `import datetime, os, random, time, uuid
return [random.random(), random.Random().random(), os.urandom(4).hex(), str(uuid.uuid4()), time.time(), str(datetime.datetime.now()), list({'a', 'b', 'c'}), hash('x')]`
  const deterministic = { seed: 5, nowMs: 1_700_000_000_000 }
  const [once, again, free, other] = await Promise.all([
    py(code, { spec: { deterministic } }),
    py(code, { spec: { deterministic } }),
    py(code),
    py(code),
  ])
  assert.deepEqual(once.value, again.value)
  assert.equal((once.value as unknown[])[4], 1_700_000_000)
  for (const index of [0, 1, 2, 3]) {
    assert.notEqual((free.value as unknown[])[index], (other.value as unknown[])[index])
  }
})

test('a session keeps its names and files, and a run that exceeds a limit ends it', async () => {
  const sandbox = await bench.runtime.open(
    { language: 'python', limits: { ...limits, wallMs: 2_000 }, network: 'none', session: true },
    signal,
  )
  const cell = async (code: string) =>
    readable(
      await sandbox.run(
        { program: { kind: 'code', language: 'python', code }, collect: { files: 9, bytes: 99 } },
        signal,
      ),
    )
  assert.deepEqual((await cell('x = 1\nopen("kept", "w").write("k")')).outcome.files.get('kept'), text('k'))
  assert.equal((await cell('x + 1')).value, 2)
  assert.deepEqual((await cell('raise ValueError(x)')).exit, { code: 1 })
  assert.deepEqual((await cell('import sys; sys.exit(3)')).exit, { code: 3 })
  assert.equal((await cell('return x')).value, 1)
  assert.equal((await cell('while True: pass')).hit, 'wallMs')
  await sandbox.ended
})

test('a program that fails after a refused allocation or write reports that limit as hit', async () => {
  const many = `import os
index = 0
while True:
    index += 1
    with open(f'f{index}', 'wb') as file: file.write(b'x' * 100000)`
  const [memory, disk, caught] = await Promise.all([
    py('hoard = []\nwhile True: hoard.append(bytearray(1000000))', { limits: { memoryBytes: 67_108_864 } }),
    py(many),
    py('try:\n  bytearray(200000000)\nexcept MemoryError:\n  print("went on")'),
  ])
  assert.deepEqual([memory.hit, memory.exit], ['memoryBytes', { code: 1 }])
  assert.ok((memory.usage.memoryPeakBytes ?? 0) <= 67_108_864)
  assert.deepEqual([disk.hit, disk.exit], ['diskBytes', { code: 1 }])
  assert.deepEqual([caught.hit, caught.stdout], [undefined, 'went on\n'])
})

test('an endless call in C is killed, and deep recursion does not crash the runtime', async () => {
  const [power, deep] = await Promise.all([
    py('10 ** 10 ** 8', { limits: { wallMs: 1_000 } }),
    py('import sys\nsys.setrecursionlimit(10 ** 6)\ndef f(n): return f(n + 1)\nf(0)', { limits: { wallMs: 3_000 } }),
  ])
  assert.equal(power.hit, 'wallMs')
  assert.ok(deep.hit === 'wallMs' || ('code' in deep.exit && deep.exit.code !== 0))
})

test('an idle host process that exits ends its sandbox; one that exits during a run fails it with BACKEND_FAILED', async () => {
  const hosts: HostProcess[] = []
  const runtime = createWasmRuntime({
    spawnHost(argv, env) {
      const host = spawnPlainly(argv, env)
      hosts.push(host)
      return host
    },
  })
  try {
    const open = () => runtime.open({ language: 'python', limits, network: 'none' }, signal)
    const waiting = await open()
    hosts.at(-1)?.kill()
    await waiting.ended
    const running = await open()
    const program = { kind: 'code', language: 'python', code: 'print("on")\nwhile True: pass' } as const
    const broken = running.run({ program, onOutput: () => hosts.at(-1)?.kill() }, signal)
    await assert.rejects(broken, { code: 'BACKEND_FAILED', effect: 'possible' })
    await running.ended
  } finally {
    await runtime.close()
  }
})

test('limits apply to a program that reports the end of its turn and continues', async () => {
  const sandbox = await bench.runtime.open(
    { language: 'python', limits: { ...limits, cpuMs: 500 }, network: 'none', session: true },
    signal,
  )
  const code = `import os\nos.write(3, b'{"done":true,"code":0}\\n')\nwhile True: pass`
  const { hit, exit } = await sandbox.run({ program: { kind: 'code', language: 'python', code } }, signal)
  assert.deepEqual([hit, exit], [process.platform === 'linux' ? 'cpuMs' : 'wallMs', { signal: 'SIGKILL' }])
  await sandbox.ended
})

test('a program that reaches JavaScript gets no host object through its devices and cannot change built-ins', async () => {
  const { stdout, stderr, exit, value } = await py(`${reachJavaScript}
found = []
for fd in (0, 3):
    stream = FS.getStream(fd)
    trap = to_js({})
    trap.length, trap.set = 0, push
    for read in (lambda: stream.stream_ops.read(stream, trap, 0, 16, 0), lambda: stream.devops.read(trap)):
        try:
            read()
        except BaseException:
            pass
        found.append(trap.length)
for it in (Array, Array.prototype, Bytes, Bytes.prototype, Object.getPrototypeOf(Bytes), Object, Object.prototype):
    found.append(Object.isFrozen(it))
try:
    Array.prototype.reduce = push
except BaseException as error:
    print('kept')
# The positive control: the same trap, for a read that uses what it is given.
trap = to_js({})
trap.length, trap.set = 0, push
trap.set(1)
return [found, trap.length]`)
  assert.deepEqual([stderr, exit], ['', { code: 0 }])
  assert.deepEqual(value, [[0, 0, 0, 0, true, true, true, true, true, true, true], 1])
  assert.equal(stdout, 'kept\n')
})

test('a large write is sent in frames of at most 64 KiB and is subject to the output limits', async () => {
  let longest = 0
  const runtime = createWasmRuntime({
    spawnHost(argv, env) {
      const host = spawnPlainly(argv, env)
      const read = createFrameReader(2 ** 30, (_kind, payload) => {
        longest = Math.max(longest, payload.length)
      })
      host.channel.on('data', read)
      return host
    },
  })
  const run = async (code: string) => {
    const sandbox = await runtime.open({ language: 'python', limits, network: 'none' }, signal)
    const program = { kind: 'code', language: 'python', code } as const
    return await sandbox.run({ program, collect: { files: 2, bytes: 1_000_000 } }, signal)
  }
  try {
    const large = await run(`import os\nos.write(1, b'x' * 1000000)\nopen('f', 'wb').write(bytes(range(250)) * 2000)`)
    assert.deepEqual([large.hit, large.stdout.total, large.stdout.bytes.length], [undefined, 1_000_000, 65_536])
    const file = large.files.get('f') ?? new Uint8Array(0)
    assert.ok(file.length === 500_000 && file.every((byte, index) => byte === index % 250))
    for (const [fd, hit] of [
      [1, 'stdoutBytes'],
      [2, 'stderrBytes'],
    ] as const) {
      assert.equal((await run(`import os\nos.write(${fd}, b'x' * (20 << 20))`)).hit, hit)
    }
    const flood = { code: 'LIMIT_EXCEEDED', details: { limit: 'messageBytes' } }
    await assert.rejects(run(`import os\nos.write(3, b'x' * (20 << 20))`), flood)
    assert.equal(longest, 65_536)
  } finally {
    await runtime.close()
  }
})

test('a cache folder that others can write to is refused', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-cache-'))
  await chmod(folder, 0o777)
  const runtime = createWasmRuntime({ cacheFolder: folder })
  try {
    const opening = runtime.open({ language: 'python', limits, network: 'none' }, signal)
    await assert.rejects(opening, { code: 'SANDBOX_INIT_FAILED' })
  } finally {
    await runtime.close()
    await rm(folder, { recursive: true })
  }
})

test('interpreter processes exit when the process that started them is killed', {
  skip: process.platform !== 'linux',
}, async () => {
  const starter = spawn(process.execPath, [join(import.meta.dirname, 'starter.fixture.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [said] = (await once(starter.stdout, 'data')) as [Buffer]
  const pids = said.toString().trim().split(' ').map(Number)
  assert.equal(pids.length, 2)
  starter.kill('SIGKILL')
  await once(starter, 'exit')
  for (const pid of pids) {
    while (await isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20))
  }
})

/** A process that is there and is not only waiting to be buried. */
async function isAlive(pid: number): Promise<boolean> {
  const usage = await usageOf(pid)
  return usage !== undefined && usage.residentBytes > 0
}

/** The same code in Pyodide as it comes, in a process that nothing holds back. */
async function unguarded(code: string): Promise<unknown> {
  const script = `
    const { loadPyodide } = await import('pyodide')
    const python = await loadPyodide()
    const code = process.argv[1].replace(/^/gm, '    ')
    console.log(python.runPython('import json\\ndef program():\\n' + code + '\\njson.dumps(program())'))
    process.exit(0)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, code], {
    cwd: import.meta.dirname,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (piece) => {
    output += piece
  })
  await once(child, 'close')
  return JSON.parse(output.trim().split('\n').at(-1) ?? '[]')
}
