import { execFileSync, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chmodSync, closeSync, existsSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Json } from '@gantry/contract'
import type { Outcome, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { numbers } from '@gantry/sandbox/internal/process/seccomp/filters'
import type { Attack, AttackEnd, Excused, Ground } from './attack.ts'

export const isRoot = process.getuid?.() === 0

/** An ordinary uid without an account on the host. */
export const stranger = 0x6fff_ff70

/** Of the host, for controls that no runtime may stand in the way of. */
export const hostPython = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3'

/** A control that needs root; for others a text says that it could not be shown. */
export function asRoot(control: (ground: Ground) => Promise<AttackEnd>): Attack['control'] {
  return isRoot ? control : 'only root could do this without the guard'
}

/** The result of an attack that got too much memory: a reason where only the kernel could count it and does not. */
export function tooMuchIn({ enforced }: Outcome): AttackEnd | Excused {
  if (enforced.memoryBytes?.startsWith('cgroup') === true) return 'succeeded'
  return {
    explained:
      'Without control groups only the memory of processes is watched, not what the kernel keeps for them. ' +
      'The profile `hardened` refuses such a machine.',
  }
}

/** Why wasm has nothing to attack in whole groups. */
export const wasmHas = {
  noCalls: 'WebAssembly makes no system calls: there is no instruction for one, and no import of ours is one.',
  noProcesses: 'There are no processes, signals or namespaces in WebAssembly; a program is one instance in one thread.',
  noProc: 'There is no /proc or /sys in the file system of a WebAssembly instance, which lies in its own memory.',
  noLinks: 'The workspace of a WebAssembly instance lies in memory and knows no links, pipes, devices or modes.',
  noDevices: 'There are no devices in a WebAssembly instance.',
} as const

/**
 * What every program starts with: `given`, and `managed`, the names of what it got done. An error of the system is a
 * refusal; any other error is a fault of the program and ends it, so that no attack passes because it is written wrong.
 */
const start = `import json, os, sys
managed = []
def tries(name, action):
    try:
        if action() not in (False, None): managed.append(name)
    except OSError: pass
def alone(action):
    """In a process of its own, which may be killed for it; whether it got to its end and answered yes."""
    pid = os.fork()
    if pid == 0:
        try: answer = 7 if action() not in (False, None) else 0
        except OSError: answer = 0
        except BaseException: answer = 9
        os._exit(answer)
    status = os.waitpid(pid, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 9: raise RuntimeError('the attack is written wrong')
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7
`

/** What a Python inside JavaScript can reach of it: nothing, in a process that is Python itself. */
export const throughJavaScript = `
def by_javascript(text):
    try:
        for name in ('js', 'pyodide_js', 'pyodide', '_pyodide_core'): sys.modules.pop(name, None)
        import _pyodide_core
        return str(_pyodide_core.to_js([[]]).constructor.constructor('return ' + text)())
    except Exception: return ''
`

/** System calls by number, past every library; `calls` has the numbers of this processor. */
const rawCalls = `import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(name, *args):
    number = calls[name] if isinstance(name, str) else name
    ctypes.set_errno(0)
    given_args = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result = libc.syscall(ctypes.c_long(number), *given_args)
    if result == -1: raise OSError(ctypes.get_errno(), 'refused')
    return result
def errno_of(name, *args):
    try: call(name, *args)
    except OSError as error: return error.errno
    return 0
`

/** Python for a sandbox; the program's input is in `given`. */
export function python(code: string, given: Json = null, more: Partial<SandboxJob> = {}): SandboxJob {
  return { ...more, program: { kind: 'code', language: 'python', code: whole(code, given) } }
}

/** As `python`, with `call(name, …)` for system calls. */
export function callingPython(code: string, given: Json = null, more: Partial<SandboxJob> = {}): SandboxJob {
  return python(`${rawCalls}calls = json.loads(${literal(callNumbers())})\n${code}`, given, more)
}

/** JavaScript for a sandbox, which is all that some runtimes read. */
export function javascript(code: string, given: Json = null, more: Partial<SandboxJob> = {}): SandboxJob {
  const text = `const given = JSON.parse(${literal(given)})\n${code}`
  return { ...more, program: { kind: 'code', language: 'javascript', code: text } }
}

function whole(code: string, given: Json): string {
  return `${start}given = json.loads(${literal(given)})\n${code}`
}

/** JSON text as a literal that Python reads. */
function literal(value: Json): string {
  return JSON.stringify(JSON.stringify(value))
}

function callNumbers(): { readonly [name: string]: number } {
  return Object.fromEntries(numbers[process.arch === 'arm64' ? 'arm64' : 'x64'])
}

/** Runs a program's code on the host with nothing between, for controls; gives what it returned. */
export function onHost(
  job: SandboxJob,
  options: { readonly uid?: number; readonly env?: NodeJS.ProcessEnv } = {},
): Json {
  if (job.program.kind !== 'code') throw new Error('only code runs on the host')
  const { uid } = options
  const said = execFileSync(hostPython, ['-c', hostScript(job.program.code)], {
    timeout: 20_000,
    encoding: 'utf8',
    cwd: '/',
    ...(uid === undefined ? {} : { uid, gid: uid }),
    ...(options.env === undefined ? {} : { env: options.env }),
  })
  return JSON.parse(said.trim().split('\n').at(-1) ?? 'null')
}

/** Code for a sandbox, as a script that prints what the code returned as its last line. */
export function hostScript(code: string): string {
  const body = code.split('\n').map((line) => ` ${line}`)
  return ['def main():', ...body, 'import json', 'print("\\n" + json.dumps(main()))'].join('\n')
}

/** The names of what a program got done; throws when it did not get to its end, which would prove nothing. */
export function managedBy({ exit, value, stderr, hit }: Outcome): readonly string[] {
  if (!('code' in exit) || exit.code !== 0 || !Array.isArray(value)) {
    const said = new TextDecoder().decode(stderr.bytes).slice(-2_000)
    throw new Error(`The program did not get to its end: ${JSON.stringify({ exit, hit })} ${said}`)
  }
  return value.map(String)
}

/**
 * The last number that a program printed, a line each. Zero when the memory limit ended it before a line arrived: a kernel of
 * the sandbox's own dies with what it had not yet passed on. Throws when it printed none otherwise, because then it did nothing.
 */
export function lastNumber({ stdout, stderr, exit, hit }: Outcome): number {
  const found = new TextDecoder().decode(stdout.bytes).trim().split('\n').at(-1) ?? ''
  if (/^\d+$/.test(found)) return Number(found)
  if (hit === 'memoryBytes') return 0
  const said = new TextDecoder().decode(stderr.bytes).slice(-2_000)
  throw new Error(`The program printed no number: ${JSON.stringify({ exit, hit, found })} ${said}`)
}

/** Whether programs run on a kernel of the sandbox's own: what they change there is changed for the sandbox alone. */
export function hasOwnKernel({ runtime }: Pick<Ground, 'runtime'>): boolean {
  return runtime.isolation === 'kernel' || runtime.isolation === 'microvm'
}

export function endOf(managed: boolean): AttackEnd {
  return managed ? 'succeeded' : 'blocked'
}

/** An attack that is one program: it returns the names of what it got done, inside none of them. */
export interface ProgramAttack {
  readonly number: number
  readonly title: string
  /** Ends with `return managed`. */
  readonly code: string
  /** Prepares the host and returns the program's input. */
  given?(ground: Ground, place: 'inside' | 'outside'): Json
  /** What it must get done where nothing guards; something at all when absent. */
  readonly shown?: readonly string[]
  readonly control?: Attack['control']
  readonly spec?: Partial<SandboxSpec>
  /** Why what it got done inside is no harm there; absent, or undefined, when it is. */
  excuse?(managed: readonly string[], ground: Ground): Excused | undefined
  readonly explained?: Attack['explained']
}

export function programAttack(attack: ProgramAttack): Attack {
  const { number, title, code, given = () => null, shown, spec, explained } = attack
  const job = (ground: Ground, place: 'inside' | 'outside'): SandboxJob => callingPython(code, given(ground, place))
  return {
    number,
    title,
    async attempt(ground) {
      const managed = managedBy(await ground.inside(job(ground, 'inside'), spec))
      if (managed.length === 0) return 'blocked'
      ground.note(`inside it managed ${managed.join(', ')}`)
      return attack.excuse?.(managed, ground) ?? 'succeeded'
    },
    control:
      attack.control ??
      asRoot(async (ground) => {
        const managed = managedBy(await ground.outside(job(ground, 'outside'), spec))
        const missing = (shown ?? []).filter((name) => !managed.includes(name))
        if (missing.length > 0) ground.note(`outside it did not manage ${missing.join(', ')}`)
        return endOf(managed.length > 0 && missing.length === 0)
      }),
    ...(explained === undefined ? {} : { explained }),
  }
}

/** A file on the host that every user may read, with a text that is nowhere else. */
export interface Canary {
  readonly path: string
  readonly text: string
}

export function canaryIn({ folder }: Ground, name = 'canary'): Canary {
  const canary = { path: join(folder, name), text: `canary-${randomUUID()}` }
  chmodSync(folder, 0o755)
  writeFileSync(canary.path, canary.text)
  chmodSync(canary.path, 0o666)
  return canary
}

/** Whether a text is anywhere in what came back of a run. */
export function holds({ value, stdout, stderr, files }: Outcome, text: string): boolean {
  const bytes = [stdout.bytes, stderr.bytes, ...files.values()]
  return JSON.stringify(value ?? null).includes(text) || bytes.some((part) => Buffer.from(part).includes(text))
}

/** A worker with something about it that a runtime in this process cannot have. */
export interface Stage {
  /** Files or folders that the worker was started with, by the number of the descriptor. */
  readonly descriptors?: { readonly [number: number]: string }
  /** Python that runs before, in the process that becomes the worker. */
  readonly before?: string
  /** Which runtime the worker opens; absent for a program with nothing between it and the stage. */
  readonly kind?: string
}

const fixture = join(import.meta.dirname, 'staged.fixture.ts')

/** Runs Python in a sandbox of a separate worker, or directly in place of the worker; returns its value. */
export function onStage(job: SandboxJob, { descriptors = {}, before = 'pass', kind }: Stage): Json {
  if (job.program.kind !== 'code') throw new Error('only code goes on stage')
  const { code } = job.program
  const command = kind === undefined ? [hostPython, '-c', hostScript(code)] : [process.execPath, fixture, kind]
  const opened = Object.entries(descriptors).map(([number, path]) => [Number(number), openSync(path, 'r')] as const)
  const stdio: (number | 'pipe' | 'ignore')[] = ['ignore', 'pipe', 'pipe']
  for (const [number, fd] of opened) stdio[number] = fd
  try {
    const started = spawnSync(
      hostPython,
      ['-c', `import os, sys\n${before}\nos.execv(sys.argv[1], sys.argv[1:])`, ...command],
      {
        stdio: Array.from(stdio, (one) => one ?? 'ignore'),
        env: { ...process.env, GANTRY_STAGED: code },
        encoding: 'utf8',
        // A virtual machine that is emulated boots for long on a busy host.
        timeout: 120_000,
        killSignal: 'SIGKILL',
      },
    )
    if (started.status !== 0) throw new Error(`The worker failed: ${started.stderr}`)
    return JSON.parse(started.stdout.trim().split('\n').at(-1) ?? '')
  } finally {
    for (const [, fd] of opened) closeSync(fd)
  }
}
