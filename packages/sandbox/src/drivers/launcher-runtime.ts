import { randomBytes } from 'node:crypto'
import { type Isolation, type SandboxLimits, ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import type {
  Outcome,
  Probe,
  Program,
  Refusal,
  Runtime,
  Sandbox,
  SandboxJob,
  SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
import { createEgressProxy, type EgressProxy } from '../egress-proxy/egress-proxy.ts'
import type { LanguagesFound } from '../languages/languages.ts'
import { type Inside, launchJob, waitingStep } from '../launcher/launch-job.ts'
import { launchedSandbox } from '../launcher/launched-sandbox.ts'
import { type Launched, startLauncher } from '../launcher/launcher.ts'
import { createSpares, type Spares } from '../launcher/spares.ts'
import { certificateEnvironment, egressInside, writeCertificates } from '../process/egress-inside.ts'
import type { Planned, Planner } from '../process/planner.ts'

/** A machine prepared for sandboxes of one kind. */
export interface PreparedHost extends Pick<Planner, 'version' | 'enforced' | 'plan' | 'refuses' | 'close'> {
  /** The launcher's path. */
  readonly launcher: string
  /** The system that programs see, when it is not the host's. */
  readonly rootfs?: string
  /** Where things are for the programs of a sandbox. */
  inside(spec: SandboxSpec, planned: Planned): Inside
}

/** A machine on which a launcher may wait. */
interface Machine extends PreparedHost {
  readonly spares: Spares
}

interface LauncherRuntimeOptions {
  readonly kind: string
  readonly isolation: Isolation
  readonly cost: number
  readonly found: LanguagesFound
  /** Whether the probe attacks the sandbox from the inside; there is nothing to attack where nothing guards. */
  readonly guarded: boolean
  /** Prepares the machine, once; tried again after it rejected, because an operator may have repaired the cause. */
  prepare(signal: AbortSignal): Promise<PreparedHost>
}

/** How long an init may take to be ready, on a machine that is very busy. */
const startMs = 20_000

/** What waits: the supervisor, bubblewrap and the init, and where a language is known its interpreter. */
const smallestBytes = 2 * 1_048_576
const idleBytes: { readonly [language: string]: number } = {
  python: 14 * 1_048_576,
  javascript: 24 * 1_048_576,
  typescript: 36 * 1_048_576,
}

/** A runtime whose sandboxes the launcher starts. The launcher ends with the thread that started it: use the main one. */
export function launcherRuntime(options: LauncherRuntimeOptions): Runtime {
  const { kind, isolation, cost, found, guarded } = options
  const open = new Set<Promise<unknown>>()
  const closing = new AbortController()
  let prepared: Promise<Machine> | undefined
  let machine: Machine | undefined

  const prepare = async (signal: AbortSignal): Promise<Machine> => {
    machine = withSpares(await options.prepare(signal))
    return machine
  }
  const preparedHost = (signal: AbortSignal): Promise<Machine> => {
    if (closing.signal.aborted) throw new ToolError('RUNTIME_UNAVAILABLE', `The ${kind} runtime is closed.`)
    prepared ??= prepare(signal).catch((error: unknown) => {
      prepared = undefined
      throw error
    })
    return prepared
  }
  const start = async (spec: SandboxSpec, given: AbortSignal): Promise<Sandbox> => {
    given.throwIfAborted()
    const here = await preparedHost(given)
    const { signal, leave } = follow(given, closing.signal)
    const sandbox = await startSandbox(here, spec, signal).finally(leave)
    const ending = () => void sandbox.dispose()
    closing.signal.addEventListener('abort', ending, { once: true })
    void sandbox.ended.then(() => closing.signal.removeEventListener('abort', ending))
    return sandbox
  }
  /** What has been started is counted from the first moment, so that closing can wait for it. */
  const counted = (spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> => {
    const starting = start(spec, signal)
    const whole = starting.then(({ ended }) => ended).catch(() => undefined)
    open.add(whole)
    void whole.then(() => open.delete(whole))
    return starting
  }
  return {
    kind,
    isolation,
    cost,
    programs: ['code', 'argv', 'script'],
    idleBytes: ({ language }) => idleBytes[language ?? ''] ?? smallestBytes,
    probe: (signal) =>
      probeByTrial({ start: counted, signal, guarded, languages: found.available, ground: () => preparedHost(signal) }),
    refuses: (spec) => found.missing.get(spec.language ?? '') ?? refusalOf(spec, found) ?? machine?.refuses(spec),
    open: counted,
    async close() {
      closing.abort(new ToolError('RUNTIME_UNAVAILABLE', `The ${kind} runtime is closed.`))
      await Promise.all(open)
      await (await prepared?.catch(() => undefined))?.close()
    },
  }
}

function refusalOf(spec: SandboxSpec, found: LanguagesFound): Refusal | undefined {
  const { network, dial, session, gateway, deterministic, language = '' } = spec
  if (deterministic !== undefined && !found.waiting.includes(language)) {
    const remedy = `Use one of ${found.waiting.join(', ')}, or leave \`deterministic\` out.`
    return { reason: `A program in ${language || 'no language'} cannot be made deterministic here.`, remedy }
  }
  if (gateway === true && (session === true || !found.asking.includes(language))) {
    const remedy = `Use one of ${found.asking.join(', ') || 'the languages of the wasm runtime'}, outside of sessions.`
    return { reason: `A program over tools cannot be in ${language || 'no language'} here.`, remedy }
  }
  if (session === true && !found.waiting.includes(language)) {
    const remedy = `Use one of ${found.waiting.join(', ')}.`
    return { reason: `${language} has no interpreter that keeps its state over several runs.`, remedy }
  }
  if (network === 'none' || dial !== undefined) return undefined
  return { reason: 'No egress is configured for this sandbox.', remedy: 'Give the executor `egress`.' }
}

function withSpares(ground: PreparedHost): Machine {
  const spares = createSpares(ground.launcher)
  return {
    ...ground,
    spares,
    async close() {
      await spares.close()
      await ground.close()
    },
  }
}

/** One sandbox, from its plan to its init, and to the interpreter that waits where a language is known. */
async function startSandbox(machine: Machine, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
  const id = randomBytes(9).toString('base64url')
  const planned = machine.plan(id, spec)
  let proxy: EgressProxy | undefined
  let launched: Launched | undefined
  const release = async (): Promise<void> => {
    await proxy?.close()
    planned.release()
  }
  try {
    proxy = await openEgress(spec, planned, machine)
    const inside = withPlaceholders(machine.inside(spec, planned), proxy)
    const step =
      spec.language === undefined ? undefined : waitingStep(inside.languages.get(spec.language), spec, inside)
    const { launcher, spares } = machine
    launched = await startLauncher(launcher, planned.plan, { signal, startMs, early: step === undefined, spares })
    if (proxy !== undefined) launched.relay(egressInside.port, egressInside.socket)
    if (step !== undefined) launched.start(step, { keep: spec.session === true })
    const waiting = step === undefined ? 'none' : isCounted(planned) ? 'counted' : 'uncounted'
    const jobOf = (job: SandboxJob) => launchJob(job, spec, inside, waiting)
    return launchedSandbox({ id, spec, launched, enforced: planned.enforced, jobOf, released: release })
  } catch (error) {
    await launched?.dispose()
    await release()
    throw error
  }
}

/** Whether the kernel counts time and memory of a sandbox as a whole, those included that have not ended. */
function isCounted({ plan }: Planned): boolean {
  const { cpuNs, cpuUsec, memoryPeakBytes } = plan.cgroups.figures
  return memoryPeakBytes !== undefined && (cpuNs ?? cpuUsec) !== undefined
}

/** The guarded proxy of this sandbox alone, where it has a network. */
async function openEgress(
  { network, dial }: SandboxSpec,
  { plan, egressFolder }: Planned,
  { rootfs }: Machine,
): Promise<EgressProxy | undefined> {
  if (network === 'none' || dial === undefined || egressFolder === undefined) return undefined
  const whose = plan.uid === undefined ? {} : { uid: plan.uid }
  const proxy = await createEgressProxy({ ...dial, allow: network.allow, socketFolder: egressFolder, ...whose })
  try {
    if (proxy.certificate !== undefined) await writeCertificates(egressFolder, proxy.certificate, rootfs)
    return proxy
  } catch (error) {
    await proxy.close()
    throw error
  }
}

/** What stands for secrets is the program's to read; the secrets stay with the proxy. */
function withPlaceholders(inside: Inside, proxy: EgressProxy | undefined): Inside {
  if (proxy?.certificate === undefined) return inside
  return { ...inside, env: { ...inside.env, ...certificateEnvironment(), ...proxy.placeholders } }
}

/** What a probe needs of a runtime that starts launchers. */
interface Trial {
  readonly signal: AbortSignal
  /** Whose programs are there. */
  readonly languages: readonly string[]
  /** Whether the sandbox attacks itself; there is nothing to attack where nothing guards. */
  readonly guarded: boolean
  ground(): Promise<Pick<Planner, 'version' | 'enforced'>>
  start(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
}

const limits: SandboxLimits = {
  wallMs: 10_000,
  cpuMs: 10_000,
  memoryBytes: 67_108_864,
  pids: 16,
  diskBytes: 1_048_576,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}

/** Starts sandboxes for real: one attacks itself from the inside, and the fastest of three gives the start time. */
async function probeByTrial(trial: Trial): Promise<Probe> {
  try {
    const { version, enforced } = await trial.ground()
    const { refused, open } = trial.guarded ? readSelfTest(await runIn(trial, ['/gantry/init', 'selftest'])) : untested
    if (open.length > 0) return breached(version, open)
    const times: number[] = []
    for (let round = 0; round < 3; round += 1) {
      const before = performance.now()
      await runIn(trial, ['/bin/true'])
      times.push(performance.now() - before)
    }
    return {
      available: true,
      version,
      startMs: Math.round(Math.min(...times) * 100) / 100,
      limits: enforced,
      languages: trial.languages,
      attacks: refused,
    }
  } catch (error) {
    trial.signal.throwIfAborted()
    return { available: false, ...reasonOf(error) }
  }
}

const untested: SelfTest = { refused: [], open: [] }

async function runIn(trial: Trial, argv: Extract<Program, { kind: 'argv' }>['argv']): Promise<Outcome> {
  const sandbox = await trial.start({ limits, network: 'none' }, trial.signal)
  try {
    return await sandbox.run({ program: { kind: 'argv', argv } }, trial.signal)
  } finally {
    await sandbox.dispose()
  }
}

function breached(version: string, attacks: readonly string[]): Probe {
  return {
    available: false,
    version,
    breached: attacks,
    reason: `The sandbox does not hold on this machine: self-test attacks ${attacks.join(', ')} worked.`,
    remedy: 'Do not use it here. Please report this, with the output of `gantry doctor --json` and `uname -a`.',
  }
}

function reasonOf(error: unknown): { readonly reason: string; readonly remedy: string } {
  const details = ToolError.is(error)
    ? (error.details as { reason?: unknown; remedy?: unknown } | undefined)
    : undefined
  const { reason, remedy } = details ?? {}
  const message = error instanceof Error ? error.message : String(error)
  return {
    reason: typeof reason === 'string' ? reason : message,
    remedy: typeof remedy === 'string' ? remedy : 'Repair that, then run `gantry doctor` again.',
  }
}

/** What the self-test attacks came to, by their numbers in our list. */
interface SelfTest {
  readonly refused: readonly string[]
  readonly open: readonly string[]
}

/** Reads what the launcher's `selftest` wrote; a line that is missing or odd counts as an attack that worked. */
function readSelfTest({ stdout, exit }: Outcome): SelfTest {
  const lines = new TextDecoder().decode(stdout.bytes).split('\n').filter(Boolean)
  const named = (state: string): string[] =>
    lines.filter((line) => line.endsWith(` ${state}`)).map((line) => line.slice(0, -state.length - 1))
  const [refused, open] = [named('refused'), named('open')]
  const whole = 'code' in exit && exit.code === 0 && refused.length === lines.length && lines.length > 0
  return { refused, open: whole || open.length > 0 ? open : ['unknown'] }
}
