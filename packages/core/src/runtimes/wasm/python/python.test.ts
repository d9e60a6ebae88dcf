import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createWasmRuntime } from '../../wasm.ts'
import { createBench, limits, readable } from '../run.fixture.ts'
import { pythonAttack } from '../self-test.ts'
import { type HostProcess, spawnPlainly } from './host-process.ts'
import { usageOf } from './usage.ts'

const bench = createBench()
const py = (code: string, options = {}) => bench.code('python', code, options)
const text = (value: string): Uint8Array => new TextEncoder().encode(value)
const signal = AbortSignal.timeout(120_000)

test('Python prints, returns, awaits, reads its input and its files, and gives files out', async () => {
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

test('from Python nothing leads to JavaScript, to files, processes or a network', async () => {
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

test('with a seed and a fixed clock the same code gives the same result, and without them another', async () => {
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

test('a session keeps its names and files, and ends with a run that overruns', async () => {
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

test('what is refused to a program that then fails is the limit that ended it', async () => {
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

test('a call in C that takes for ever is ended, and a deep recursion does not take the host along', async () => {
  const [power, deep] = await Promise.all([
    py('10 ** 10 ** 8', { limits: { wallMs: 1_000 } }),
    py('import sys\nsys.setrecursionlimit(10 ** 6)\ndef f(n): return f(n + 1)\nf(0)', { limits: { wallMs: 3_000 } }),
  ])
  assert.equal(power.hit, 'wallMs')
  assert.ok(deep.hit === 'wallMs' || ('code' in deep.exit && deep.exit.code !== 0))
})

test('a host that ends while it waits ends its sandbox; one that ends in a run is a broken sandbox', async () => {
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

test('a folder in which others may write is not used', async () => {
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

test('interpreters go with whoever started them, also when that is killed', {
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
