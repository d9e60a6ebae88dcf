import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, Program, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'

/** An attack that a runtime must hold against before it is used. */
export interface Attack {
  readonly name: string
  readonly language?: string
  readonly limits?: Partial<SandboxLimits>
  readonly program: Program
  /** Whether the attack came to nothing. */
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

/** Every function that a program holds is asked for the globals of whoever made it. */
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

/** Looks for everything in the interpreter that is JavaScript, which it cannot quite hide, and goes on from there. */
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

/** Runs an attack in a sandbox of its own; what came of it. */
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
