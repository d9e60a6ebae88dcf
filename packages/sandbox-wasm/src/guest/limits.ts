import { ToolError } from '@gantry/contract'
import type { Outcome, Program, Refusal, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { spaceOf } from './workspace.ts'

const languages = ['javascript', 'typescript', 'python']
const shell = 'Use the process runtime, which has a shell and the programs of a system.'
/** Below this Pyodide does not start. */
const leastPythonBytes = 64 * 1_048_576

/** Why the runtime cannot serve a spec at all. */
export function refusalOf({ language, network, strict, session, gateway, limits }: SandboxSpec): Refusal | undefined {
  if (strict === true) {
    const reason = 'Its limits are held by interpreters and timers, not by the kernel.'
    return { reason, remedy: 'Use the process runtime, or a profile that is not strict.' }
  }
  if (network !== 'none') {
    return { reason: 'It has no network.', remedy: 'Ask for no network, or use the process runtime.' }
  }
  if (language === undefined) {
    if (session !== true) return undefined
    return { reason: 'A WASI module has no state to keep.', remedy: 'Ask for no session, or name a language.' }
  }
  if (!languages.includes(language)) {
    return { reason: `It has ${languages.join(', ')} and WASI modules, and no shell.`, remedy: shell }
  }
  if (gateway === true && (language === 'python' || session === true)) {
    const reason = 'Its programs over tools are in javascript or typescript, outside of sessions.'
    return { reason, remedy: 'Use the process runtime, which has them in python.' }
  }
  if (language !== 'python' || limits.memoryBytes >= leastPythonBytes) return undefined
  const reason = `Its Python takes at least ${leastPythonBytes} bytes of memory.`
  return { reason, remedy: 'Raise limits.memoryBytes, or use the process runtime.' }
}

/** Throws RUNTIME_UNAVAILABLE for a program that a sandbox of this spec does not run. */
export function checkProgram(program: Program, { language }: SandboxSpec): void {
  if (program.kind === 'code' && program.language === language) return
  if (program.kind === 'wasi' && language === undefined) return
  const reason = `The wasm runtime cannot run a program given as ${program.kind} in this sandbox.`
  throw new ToolError('RUNTIME_UNAVAILABLE', `${reason} ${shell}`, {
    retryable: false,
    details: { reason, remedy: shell },
  })
}

/** Throws INPUT_INVALID for files that do not fit into the workspace. */
export function checkSpace({ files }: SandboxJob, { limits }: SandboxSpec): void {
  if (files === undefined || spaceOf(files) <= limits.diskBytes) return
  const message = 'do not fit into limits.diskBytes'
  throw new ToolError('INPUT_INVALID', `The files ${message}.`, {
    effect: 'none',
    details: { issues: [{ path: '/files', message }] },
  })
}

type Enforced = Outcome['enforced']

const common: Enforced = {
  wallMs: 'timer',
  memoryBytes: 'maximum of the linear memory',
  pids: 'no processes',
  diskBytes: 'workspace in memory',
  stdoutBytes: 'cap',
  stderrBytes: 'cap',
}

/** The mechanism of each limit, by program kind. */
export const enforced = {
  thread: { ...common, cpuMs: 'time of the thread' },
  python: common,
} as const satisfies { readonly [part: string]: Enforced }

const mebibyte = 1_048_576

/** Bytes on a stream that end a program: far more than is kept, and never so few that a verbose program is ended. */
export function floodBytes(limit: number): number {
  return Math.max(limit * 8, 16 * mebibyte)
}
