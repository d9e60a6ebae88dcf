import { randomBytes } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import type { Outcome, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { Language, Languages } from '../languages/languages.ts'
import type { LaunchJob, LaunchStep } from './launcher.ts'

/** Paths, environment and limits as programs inside a sandbox see them. */
export interface Inside {
  readonly workspace: string
  readonly node: string
  readonly drivers: string
  readonly languages: Languages
  /** Set for every program, in addition to the job's environment. */
  readonly env: { readonly [name: string]: string }
  /** Set inside, where the kernel counts them for this sandbox alone. */
  readonly rlimits: { readonly [name: string]: number }
  /** Limits that the init enforces where no control group does. */
  readonly watch: NonNullable<LaunchJob['watch']>
}

const hiddenFolder = '.gantry'
const codeFolder = `${hiddenFolder}/code`

/** The environment of every program, below the job's own. */
export function basicEnvironment(workspace: string): { readonly [name: string]: string } {
  return {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: workspace,
    TMPDIR: `${workspace}/${hiddenFolder}/tmp`,
    LANG: 'C.UTF-8',
  }
}

/** The step that starts the warm interpreter, for languages that have a driver. */
export function waitingStep(language: Language, spec: SandboxSpec, inside: Inside): LaunchStep | undefined {
  if (language.driver === undefined) return undefined
  // Python reads the hash seed only at its start.
  const fixed: { readonly [name: string]: string } = spec.deterministic === undefined ? {} : { PYTHONHASHSEED: '0' }
  const command = spec.gateway === true ? [...language.driver, 'gateway'] : language.driver
  return stepOf(command, language, { ...inside.env, ...language.env, ...fixed }, inside)
}

/** Whether an interpreter is warm, and whether control groups count its usage, so that its exit need not be awaited. */
type Waiting = 'none' | 'counted' | 'uncounted'

/** Converts a job for the launcher: a line for the warm interpreter, or files and steps. */
export function launchJob(job: SandboxJob, spec: SandboxSpec, inside: Inside, waiting: Waiting): LaunchJob {
  const { stdoutBytes, stderrBytes } = spec.limits
  return {
    ...programOf(job, spec, inside, waiting),
    stdoutBytes,
    stderrBytes,
    watch: inside.watch,
    ...(job.stdin === undefined ? {} : { stdin: job.stdin }),
    ...(job.collect === undefined ? {} : { collect: job.collect }),
  }
}

function programOf(
  job: SandboxJob,
  spec: SandboxSpec,
  inside: Inside,
  waiting: Waiting,
): Pick<LaunchJob, 'steps' | 'files' | 'line' | 'token' | 'gateway'> {
  const { program, files = new Map<string, Uint8Array>() } = job
  const env = { ...inside.env, ...job.env }
  if (program.kind === 'wasi') throw new ToolError('RUNTIME_UNAVAILABLE', 'WASI modules run in the wasm runtime only.')
  if (program.kind === 'argv') return { files, steps: [bare(program.argv, env, inside)] }
  if (program.kind === 'script') {
    const path = `${codeFolder}/script.sh`
    const steps: [LaunchStep] = [bare(['/bin/sh', `${inside.workspace}/${path}`], env, inside)]
    return { files: withFile(files, path, program.script), steps }
  }
  const language = inside.languages.get(program.language)
  const own = { ...env, ...language.env }
  const gateway = job.gateway === undefined ? {} : { gateway: randomBytes(15).toString('base64url') }
  if (job.gateway !== undefined && (language.gateway !== true || spec.session === true)) {
    const message = `A program over tools cannot be in ${language.name} here, nor in a session.`
    throw new ToolError('RUNTIME_UNAVAILABLE', message, { retryable: false })
  }
  if (language.driver !== undefined) {
    const { session = false, deterministic } = spec
    const fixed = deterministic === undefined ? {} : { deterministic }
    const token = waiting === 'counted' && !session ? { token: randomBytes(6).toString('base64url') } : {}
    const line = JSON.stringify({ code: program.code, env: own, session, ...fixed, ...token, ...gateway })
    if (waiting !== 'none') return { files, line, ...token, ...gateway }
    return { files, line, ...gateway, steps: [stepOf(language.driver, language, own, inside)] }
  }
  const path = `${codeFolder}/${language.file}`
  const last = stepOf(language.command, language, own, inside)
  const { compile } = language
  const steps: [LaunchStep, ...LaunchStep[]] =
    compile === undefined ? [last] : [stepOf(compile, language, own, inside), last]
  return { files: withFile(files, path, program.code), steps }
}

function withFile(files: ReadonlyMap<string, Uint8Array>, path: string, text: string): ReadonlyMap<string, Uint8Array> {
  return new Map([...files, [path, new TextEncoder().encode(text)]])
}

function stepOf(command: readonly string[], { file }: Language, env: LaunchStep['env'], inside: Inside): LaunchStep {
  const { workspace, node, drivers } = inside
  const words: { readonly [name: string]: string } = { file: `${workspace}/${codeFolder}/${file}`, node, drivers }
  const argv = command.map((word) => word.replace(/\{(\w+)\}/g, (whole, name: string) => words[name] ?? whole))
  return bare(argv as [string, ...string[]], env, inside)
}

function bare(argv: readonly [string, ...string[]], env: LaunchStep['env'], { rlimits }: Inside): LaunchStep {
  return { argv, env, rlimits }
}

/** The limits that no control group enforces, for the init to watch. */
export function watchOf({ limits }: SandboxSpec, enforced: Outcome['enforced']): Inside['watch'] {
  const byKernel = (limit: 'memoryBytes' | 'pids' | 'cpuMs'): boolean => enforced[limit]?.startsWith('cgroup') === true
  return {
    ...(byKernel('memoryBytes') ? {} : { memoryBytes: limits.memoryBytes }),
    ...(byKernel('pids') ? {} : { pids: limits.pids }),
    ...(byKernel('cpuMs') ? {} : { cpuMs: limits.cpuMs }),
  }
}
