import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import type { SandboxLimits } from '@gantry/contract'
import { createProcessRuntime, type Program, type Runtime } from '@gantry/sandbox'
import { createWasmRuntime } from '@gantry/sandbox-wasm'
import { quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, ratio, type Section } from './report.ts'
import { freshQuickjs } from './sandbox-peers.ts'

const limits: SandboxLimits = {
  wallMs: 30_000,
  cpuMs: 30_000,
  memoryBytes: 268_435_456,
  pids: 64,
  diskBytes: 33_554_432,
  stdoutBytes: 1_048_576,
  stderrBytes: 1_048_576,
}
const never = new AbortController().signal
const python: Program = { kind: 'code', language: 'python', code: 'print(6*7)' }
const javascript: Program = { kind: 'code', language: 'javascript', code: 'return 6*7' }
const nothing: Program = { kind: 'argv', argv: ['/bin/true'] }

/** Sandboxes compared with the raw tools they use: cold, warm, in WebAssembly, many at a time, and their memory. */
export async function sandboxes(): Promise<Section> {
  const head = ['fresh sandbox, one program', 'p50 ms', 'p5 ms', 'p95 ms', 'to raw', 'target']
  const processes = await inProcesses()
  return {
    title: 'A program in a sandbox',
    tables: [
      { head, rows: [...processes.rows, ...(await inWasm())] },
      { head: ['many and waiting', 'figure'], rows: processes.figures },
    ],
    notes,
  }
}

/** Measured before WebAssembly is loaded: a larger process takes longer to start another, raw or not. */
async function inProcesses(): Promise<{ rows: string[][]; figures: string[][] }> {
  const runtime = createProcessRuntime()
  try {
    const rows = await interleave({
      'plain process (`/bin/true`)': { work: () => ended('/bin/true', []) },
      'raw bubblewrap, same uid drop, no limits': { work: rawBubblewrap },
      '**Gantry** `process`, cold': { work: () => fresh(runtime, nothing), beside: 1, target: '≤ 1.3×' },
      'plain `python3 -c`': { work: () => ended('/usr/bin/python3', ['-c', 'print(6*7)']) },
      '**Gantry** `process`, Python, waiting': { work: waiting(runtime, python), target: '≤ 3 ms', beside: 3 },
    })
    return { rows, figures: [...(await throughput(runtime)), ...(await idleMemory(runtime))] }
  } finally {
    await runtime.close()
  }
}

async function inWasm(): Promise<string[][]> {
  const wasm = createWasmRuntime()
  try {
    return [
      ...(await interleave({
        'QuickJS, context in this thread, no limits': { work: freshQuickjs },
        '**Gantry** `wasm`, JavaScript': { work: () => fresh(wasm, javascript), target: '≤ 1 ms', beside: 0 },
      })),
      ...(await interleave({
        '**Gantry** `wasm`, Python, cold': { work: () => fresh(wasm, python) },
        '**Gantry** `wasm`, Python, waiting': { work: waiting(wasm, python), target: '≤ 150 ms', beside: 0 },
      })),
    ]
  } finally {
    await wasm.close()
  }
}

const notes = [
  'One program at a time, start to end, everything of the sandbox cleared away. The raw bubblewrap has all namespaces, /usr read-only, /proc, /dev and a tmpfs, run by an unprivileged uid; Gantry adds control groups, a system call filter, a keyring, an init and a supervisor, and measures.',
  '“Waiting” is a sandbox of the pool with Python started in it, taken, used once and destroyed; its replacement starts aside. Of those in WebAssembly JavaScript gets a fresh QuickJS in a warm thread, Python a fresh Pyodide from its snapshot, in a process of its own.',
]

interface Subject {
  readonly work: () => Promise<unknown>
  readonly target?: string
  /** Index of the row it is compared with. */
  readonly beside?: number
}

const rounds = 30

/** Runs each subject once a round, so that a busy moment of the machine affects all of them. */
async function interleave(subjects: { readonly [name: string]: Subject }): Promise<string[][]> {
  const list = Object.entries(subjects)
  const times = list.map((): number[] => [])
  for (let round = -3; round < rounds; round += 1) {
    progress(`sandboxes ${Math.max(0, round + 1)} of ${rounds}`)
    for (const [index, [, { work }]] of list.entries()) {
      const before = performance.now()
      const own = await work()
      const taken = typeof own === 'number' ? own : performance.now() - before
      if (round >= 0) times[index]?.push(taken)
    }
  }
  return list.map(([name, { target = '', beside }], index) => {
    const own = times[index] ?? []
    const [p50, p5, p95] = [0.5, 0.05, 0.95].map((share) => quantile(own, share)) as [number, number, number]
    const to = beside === undefined ? '' : ratio(p50, quantile(times[beside] ?? [], 0.5))
    return [name, figure(p50), figure(p5), figure(p95), to, target]
  })
}

async function fresh(runtime: Runtime, program: Program): Promise<void> {
  const language = program.kind === 'code' ? { language: program.language } : {}
  const sandbox = await runtime.open({ limits, network: 'none', ...language }, never)
  await sandbox.run({ program }, never)
  await sandbox.dispose()
}

/** Long enough for an interpreter to start and become idle. */
const idleMs = 150

/** Time from the request to its result, in a warm sandbox that has become idle. */
function waiting(runtime: Runtime, program: Program): () => Promise<number> {
  return async () => {
    const sandbox = await runtime.open({ limits, network: 'none', language: 'python' }, never)
    await new Promise((resolve) => setTimeout(resolve, idleMs))
    const before = performance.now()
    await sandbox.run({ program }, never)
    const taken = performance.now() - before
    await sandbox.dispose()
    return taken
  }
}

const rawArguments = [
  '--unshare-all',
  '--die-with-parent',
  '--new-session',
  '--ro-bind',
  '/usr',
  '/usr',
  '--symlink',
  'usr/bin',
  '/bin',
  '--symlink',
  'usr/lib',
  '/lib',
  '--symlink',
  'usr/lib64',
  '/lib64',
  '--proc',
  '/proc',
  '--dev',
  '/dev',
  '--tmpfs',
  '/tmp',
  '/bin/true',
]

function rawBubblewrap(): Promise<void> {
  const dropped = process.getuid?.() === 0 ? { uid: 70_001, gid: 70_001 } : {}
  return ended('bwrap', rawArguments, dropped)
}

function ended(command: string, args: readonly string[], who: object = {}): Promise<void> {
  return new Promise((resolve, reject) => {
    const env = { PATH: '/usr/bin:/bin' }
    const child = spawn(command, args, { ...who, stdio: ['ignore', 'pipe', 'pipe'], env, cwd: '/' })
    child.stdout?.resume()
    child.on('error', reject)
    child.on('close', (code) => (code === 0 ? resolve() : reject(new Error(`${command} ended with ${code}`))))
  })
}

/** Cold sandboxes, as many at a time as there are processors. */
async function throughput(runtime: Runtime): Promise<string[][]> {
  const cores = availableParallelism()
  const count = 200
  let left = count
  progress('sandboxes, throughput')
  const worker = async (): Promise<void> => {
    while (left-- > 0) await fresh(runtime, nothing)
  }
  const before = performance.now()
  await Promise.all(Array.from({ length: cores * 2 }, worker))
  const seconds = (performance.now() - before) / 1_000
  return [['fresh `process` sandboxes a second and core', figure(count / seconds / cores)]]
}

/** Proportional set size (PSS) of warm sandboxes. */
async function idleMemory(runtime: Runtime): Promise<string[][]> {
  const rows: string[][] = []
  for (const language of [undefined, 'python', 'javascript']) {
    const before = new Set(pids())
    const spec = { limits, network: 'none', ...(language === undefined ? {} : { language }) } as const
    const open = await Promise.all(Array.from({ length: 8 }, () => runtime.open(spec, never)))
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    const bytes = pids()
      .filter((pid) => !before.has(pid))
      .reduce((sum, pid) => sum + proportionalBytes(pid), 0)
    await Promise.all(open.map((sandbox) => sandbox.dispose()))
    rows.push([`MiB of a waiting \`process\` sandbox, ${language ?? 'no interpreter'}`, figure(bytes / 8 / 1_048_576)])
  }
  return rows
}

function pids(): string[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name))
}

function proportionalBytes(pid: string): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1')
    return Number(/^Pss:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1_024
  } catch {
    return 0
  }
}
