import { createRequire } from 'node:module'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, Probe, Program, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { enforced } from './limits.ts'

/** An attack that a runtime must block before it is used. */
export interface Attack {
  readonly name: string
  readonly language?: string
  readonly limits?: Partial<SandboxLimits>
  readonly program: Program
  /** Whether the attack was blocked. */
  held(outcome: Outcome): boolean
}

const mebibyte = 1_048_576
const limits: SandboxLimits = {
  wallMs: 20_000,
  cpuMs: 20_000,
  memoryBytes: 128 * mebibyte,
  pids: 8,
  diskBytes: mebibyte,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}

const javascript = (code: string): Program => ({ kind: 'code', language: 'javascript', code })

/** Tries to reach the host's globals through the constructor of every function that a program holds. */
const constructorChain = `
  const found = [console.log, setTimeout, require, process.exit, process.stdout.write, crypto.randomUUID, () => 1, Promise.resolve]
    .map((work) => work.constructor('return [typeof process.binding, typeof process.versions, typeof Buffer, typeof global]')())
  return found.flat().every((kind) => kind === 'undefined')`

const foreignModules = `
  const names = ['node:child_process', 'node:net', 'node:worker_threads', 'file:///etc/passwd', '/etc/passwd', 'data:text/javascript,1']
  const loaded = await Promise.all(names.map((name) => import(name).then(() => true, () => false)))
  return !loaded.includes(true)`

export const threadAttacks: readonly Attack[] = [
  {
    name: 'reach the host by the constructors of its functions',
    language: 'javascript',
    program: javascript(constructorChain),
    held: ({ value }) => value === true,
  },
  {
    name: 'import modules of the host',
    language: 'javascript',
    program: javascript(foreignModules),
    held: ({ value }) => value === true,
  },
  {
    name: 'take memory without end',
    language: 'javascript',
    limits: { memoryBytes: 16 * mebibyte },
    program: javascript('const all = []; while (true) all.push(new Uint8Array(65536))'),
    held: ({ hit }) => hit === 'memoryBytes',
  },
  {
    name: 'loop without end',
    language: 'javascript',
    limits: { wallMs: 50, cpuMs: 50 },
    program: javascript('while (true);'),
    held: ({ hit }) => hit === 'wallMs' || hit === 'cpuMs',
  },
]

/** Searches the interpreter for JavaScript objects, which it cannot completely hide, and continues from there. */
const pythonEscape = `
import gc, os, socket
found = []
for name in ('js', 'pyodide_js', 'pyodide', '_pyodide_core', 'ctypes', '_ctypes'):
    try:
        __import__(name)
        found.append('import ' + name)
    except ImportError:
        pass
gc.unfreeze()
pending = [part for thing in gc.get_objects() for part in gc.get_referents(thing) if type(part).__name__ == 'JsProxy']
seen = 0
while pending and seen < 200:
    thing = pending.pop()
    seen += 1
    for path in ('process', 'globalThis', 'require', 'fetch', 'WebAssembly', 'constructor.constructor'):
        try:
            target = thing
            for part in path.split('.'):
                target = getattr(target, part)
            if 'constructor' in path:
                target = target('return globalThis')()
            if not isinstance(target, (str, int, type(None))):
                found.append(path)
        except BaseException:
            pass
    for name in dir(thing):
        try:
            member = getattr(thing, name)
            if not name.startswith('__') and type(member).__name__ == 'JsProxy':
                pending.append(member)
        except BaseException:
            pass
for path in ('/etc/passwd', '/proc/self/environ', '/proc/version'):
    if os.path.exists(path):
        found.append(path)
for act in (lambda: os.system('true') == 0 or 1 / 0, os.fork, lambda: socket.create_connection(('127.0.0.1', 9), 1)):
    try:
        act()
        found.append('act')
    except BaseException:
        pass
return {'found': found, 'seen': seen}`

export const pythonAttack: Attack = {
  name: 'reach JavaScript, files, processes or a network from Python',
  language: 'python',
  program: { kind: 'code', language: 'python', code: pythonEscape },
  held: ({ value }) => value !== undefined && JSON.stringify(value).startsWith('{"found":[],'),
}

/** Runs an attack in its own sandbox and returns the outcome. */
export async function attack(
  { language, program, limits: own }: Attack,
  open: (spec: SandboxSpec, signal: AbortSignal) => Promise<Sandbox>,
  signal: AbortSignal,
): Promise<Outcome> {
  const spec: SandboxSpec = {
    limits: { ...limits, ...own },
    network: 'none',
    ...(language === undefined ? {} : { language }),
  }
  const sandbox = await open(spec, signal)
  try {
    return await sandbox.run({ program }, signal)
  } finally {
    await sandbox.dispose()
  }
}

type Open = (spec: SandboxSpec, signal: AbortSignal) => Promise<Sandbox>

/**
 * Starts QuickJS and attacks it. Python is not started here, because that can take seconds: its self-test runs before its
 * first program, and `pythonTested` returns whether it passed. `held` caches a passed self-test, so that the next runtime of
 * the process, which runs the same code, need not repeat it.
 */
export async function probeThreads(
  open: Open,
  pythonTested: boolean,
  held: Map<string, number>,
  signal: AbortSignal,
): Promise<Probe> {
  const version = versions()
  try {
    const breached = held.has(version) ? [] : await breachesOf(open, signal)
    if (breached.length > 0) return refused(version, breached)
    const attacks = [...threadAttacks, ...(pythonTested ? [pythonAttack] : [])].map(({ name }) => name)
    const startMs = held.get(version) ?? (await fastest(open, signal))
    held.set(version, startMs)
    const languages = ['javascript', 'typescript', ...(pyodideVersion() === undefined ? [] : ['python'])]
    return { available: true, version, startMs, limits: enforced.thread, languages, attacks }
  } catch (error) {
    signal.throwIfAborted()
    const said = error instanceof Error ? error.message : String(error)
    return { available: false, version, reason: `QuickJS does not run here: ${said}`, remedy: 'Install Gantry again.' }
  }
}

async function breachesOf(open: Open, signal: AbortSignal): Promise<string[]> {
  const breached: string[] = []
  for (const each of threadAttacks) {
    const outcome = await attack(each, open, signal)
    if (!each.held(outcome)) breached.push(each.name)
  }
  return breached
}

function refused(version: string, breached: readonly string[]): Probe {
  const reason = `Its self-test failed: a program could ${breached.join(', and ')}.`
  return { available: false, version, reason, remedy: 'Use another runtime, and report this.', breached }
}

async function fastest(open: Open, signal: AbortSignal): Promise<number> {
  const times: number[] = []
  for (let run = 0; run < 3; run++) {
    const begin = performance.now()
    const program = { kind: 'code', language: 'javascript', code: 'return 1' } as const
    await attack({ name: '', language: 'javascript', program, held: () => true }, open, signal)
    times.push(performance.now() - begin)
  }
  return Math.min(...times)
}

function versions(): string {
  const require = createRequire(import.meta.url)
  const { version }: { version: string } = require('@jitl/quickjs-ng-wasmfile-release-sync/package.json')
  const pyodide = pyodideVersion()
  return `quickjs-ng of quickjs-emscripten ${version}${pyodide === undefined ? '' : `, pyodide ${pyodide}`}`
}

function pyodideVersion(): string | undefined {
  try {
    return createRequire(import.meta.url)('pyodide/package.json').version
  } catch {
    return undefined
  }
}
