import { randomBytes } from 'node:crypto'
import { type Isolation, type SandboxLimits, ToolError } from '@gantry/contract'
import { follow, onAbort } from '@gantry/core/internal/resilience/abort'
import type {
  Outcome,
  PackageDigests,
  PackageKind,
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
import { createSpares, type Launched, type LaunchOptions, startLauncher } from '../launcher/launcher.ts'
import { startFrame } from '../launcher/protocol.ts'
import { certificateEnvironment, egressInside, writeCertificates } from '../process/egress-inside.ts'
import type { Planned, Planner } from '../process/planner.ts'

/** A machine or container engine prepared for sandboxes of one kind. */
export interface PreparedHost extends Pick<Planner, 'version' | 'enforced' | 'refuses' | 'close'> {
  /** The languages of its root file system, where that is known only now; those of the runtime's options otherwise. */
  readonly found?: LanguagesFound
  /** The digest of the image that sandboxes are made from, where they are. */
  readonly image?: string
  /** The digests of the packages that programs of a spec find. */
  packages?(spec: SandboxSpec): PackageDigests | undefined
  /** The system that programs see, when it is not the host's. */
  readonly rootfs?: string
  /** Resolves when what was checked may not hold any more: the next sandbox prepares anew. Its sandboxes go on. */
  readonly outdated?: Promise<void>
  plan(id: string, spec: SandboxSpec): PlannedSandbox
}

/** One sandbox that is planned and not started. */
export interface PlannedSandbox extends Pick<Planned, 'enforced' | 'egressFolder' | 'release'> {
  /** The uid of its processes on the host, where it has one of its own. */
  readonly uid?: number
  /** Whether the kernel counts time and memory of the sandbox as a whole, processes included that have not ended. */
  readonly counted: boolean
  /** Where things are for its programs. */
  readonly inside: Inside
  /** Starts it; the contract is that of `startLauncher`. */
  launch(options: StartOptions): Promise<Launched>
}

type StartOptions = Pick<LaunchOptions, 'signal' | 'startMs' | 'early' | 'ahead'>

interface LauncherRuntimeOptions {
  readonly kind: string
  readonly isolation: Isolation
  readonly cost: number
  readonly found: LanguagesFound
  /** The kinds of packages that its sandboxes can have. */
  readonly packages?: readonly PackageKind[]
  /** Whether the probe attacks the sandbox from the inside; false for a runtime that isolates nothing. */
  readonly guarded: boolean
  /** Memory of an idle sandbox; that of a process when absent. */
  idleBytes?(spec: SandboxSpec): number
  /** Prepares the host once. Called again when it is outdated, and after a rejection, because an operator may have repaired the cause. */
  prepare(signal: AbortSignal): Promise<PreparedHost>
}

/** Time for the init to become ready, also on a heavily loaded machine. */
const startMs = 20_000

/** Memory of an idle process: the supervisor, bubblewrap and the init, plus the interpreter of a known language. */
const smallestBytes = 2 * 1_048_576
const interpreterBytes: { readonly [language: string]: number } = {
  python: 14 * 1_048_576,
  javascript: 24 * 1_048_576,
  typescript: 36 * 1_048_576,
}

export function processIdleBytes({ language }: SandboxSpec): number {
  return interpreterBytes[language ?? ''] ?? smallestBytes
}

/** A runtime whose sandboxes the launcher starts. The launcher ends with the thread that started it: use the main thread. */
export function launcherRuntime(options: LauncherRuntimeOptions): Runtime {
  const { kind, isolation, cost, found, packages = [], guarded, idleBytes = processIdleBytes } = options
  const open = new Set<Promise<unknown>>()
  const closing = new AbortController()
  let prepared: Promise<PreparedHost> | undefined
  let machine: PreparedHost | undefined
  /** Each is closed when its sandboxes have ended and a new one is prepared: until then it tries again to remove what is left. */
  const outdated = new Map<PreparedHost, Promise<unknown>>()
  const retired = new Set<Promise<unknown>>()

  const prepare = async (signal: AbortSignal): Promise<PreparedHost> => {
    const host = await options.prepare(signal)
    machine = host
    void host.outdated?.then(() => {
      if (machine === host) prepared = undefined
      outdated.set(host, Promise.all(open))
    })
    for (const [old, ended] of outdated) {
      outdated.delete(old)
      const closed = ended.then(old.close).catch(() => undefined)
      retired.add(closed)
      void closed.then(() => retired.delete(closed))
    }
    return host
  }
  const languages = (): LanguagesFound => machine?.found ?? found
  const preparedHost = (signal: AbortSignal): Promise<PreparedHost> => {
    if (closing.signal.aborted) throw new ToolError('RUNTIME_UNAVAILABLE', `The ${kind} runtime is closed.`)
    prepared ??= prepare(signal).catch((error: unknown) => {
      prepared = undefined
      throw error
    })
    return prepared
  }
  const startOnce = async (spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> => {
    const here = await preparedHost(signal)
    try {
      return await startSandbox(here, spec, signal)
    } catch (error) {
      // Nothing ran, and what is missing may be found by a host that is prepared anew, such as a newer image.
      if (!outdated.has(here) || !ToolError.is(error) || error.code !== 'RUNTIME_UNAVAILABLE') throw error
      signal.throwIfAborted()
      return startSandbox(await preparedHost(signal), spec, signal)
    }
  }
  const start = async (spec: SandboxSpec, given: AbortSignal): Promise<Sandbox> => {
    given.throwIfAborted()
    const { signal, leave } = follow(given, closing.signal)
    const sandbox = await startOnce(spec, signal).finally(leave)
    void sandbox.ended.then(onAbort(closing.signal, () => void sandbox.dispose()))
    return sandbox
  }
  /** Counts a sandbox from the start of its launch, so that `close` can wait for it. */
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
    packages,
    image: () => machine?.image,
    idleBytes,
    probe: (signal) => probeByTrial({ start: counted, signal, guarded, languages, ground: () => preparedHost(signal) }),
    refuses: (spec) =>
      languages().missing.get(spec.language ?? '') ?? refusalOf(spec, languages()) ?? machine?.refuses(spec),
    open: counted,
    async close() {
      closing.abort(new ToolError('RUNTIME_UNAVAILABLE', `The ${kind} runtime is closed.`))
      await Promise.all(open)
      const last = await prepared?.catch(() => undefined)
      await Promise.all([...retired, ...[...outdated.keys()].map((host) => host.close())])
      if (last !== undefined && !outdated.has(last)) await last.close()
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

interface LauncherHost
  extends Pick<Planner, 'version' | 'enforced' | 'plan' | 'refuses' | 'close'>,
    Pick<PreparedHost, 'outdated' | 'packages'> {
  /** The launcher's path. */
  readonly launcher: string
  readonly rootfs?: string
  inside(spec: SandboxSpec, planned: Planned): Inside
}

/** A host whose sandboxes the native launcher starts. */
export function launcherHost({ launcher, inside, plan, close, ...host }: LauncherHost): PreparedHost {
  const spares = createSpares(launcher)
  return {
    ...host,
    plan(id, spec) {
      const planned = plan(id, spec)
      const { uid } = planned.plan
      return {
        ...planned,
        ...(uid === undefined ? {} : { uid }),
        counted: isCounted(planned),
        inside: inside(spec, planned),
        launch: (options) => startLauncher(launcher, planned.plan, { ...options, spares }),
      }
    },
    async close() {
      await spares.close()
      await close()
    },
  }
}

/** One sandbox, from its plan to its init, and to the interpreter that waits where a language is known. */
async function startSandbox(machine: PreparedHost, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
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
    const inside = withPlaceholders(planned.inside, proxy)
    const step =
      spec.language === undefined ? undefined : waitingStep(inside.languages.get(spec.language), spec, inside)
    const keep = spec.session === true
    const ahead = step === undefined ? {} : { ahead: startFrame(step, keep) }
    launched = await planned.launch({ signal, startMs, early: step === undefined, ...ahead })
    if (proxy !== undefined) launched.relay(egressInside.port, egressInside.socket)
    if (step !== undefined) launched.start(step, { keep })
    const waiting = step === undefined ? 'none' : planned.counted ? 'counted' : 'uncounted'
    const jobOf = (job: SandboxJob) => launchJob(job, spec, inside, waiting)
    const { enforced } = planned
    const packages = machine.packages?.(spec)
    const made = {
      ...(machine.image === undefined ? {} : { image: machine.image }),
      ...(packages === undefined ? {} : { packages }),
    }
    return launchedSandbox({ id, spec, launched, enforced, ...made, jobOf, released: release })
  } catch (error) {
    await launched?.dispose()
    await release()
    throw error
  }
}

/** Whether control groups count time and memory of the whole sandbox, including processes that have not exited. */
function isCounted({ plan }: Planned): boolean {
  const { cpuNs, cpuUsec, memoryPeakBytes } = plan.cgroups.figures
  return memoryPeakBytes !== undefined && (cpuNs ?? cpuUsec) !== undefined
}

/** Opens the egress proxy of this sandbox, when it has a network. */
async function openEgress(
  { network, dial }: SandboxSpec,
  { uid, egressFolder }: PlannedSandbox,
  { rootfs }: PreparedHost,
): Promise<EgressProxy | undefined> {
  if (network === 'none' || dial === undefined || egressFolder === undefined) return undefined
  const whose = uid === undefined ? {} : { uid }
  const proxy = await createEgressProxy({ ...dial, allow: network.allow, socketFolder: egressFolder, ...whose })
  try {
    if (proxy.certificate !== undefined) await writeCertificates(egressFolder, proxy.certificate, rootfs)
    return proxy
  } catch (error) {
    await proxy.close()
    throw error
  }
}

/** Adds placeholders to the environment. The program may read them; the secrets stay in the proxy. */
function withPlaceholders(inside: Inside, proxy: EgressProxy | undefined): Inside {
  if (proxy?.certificate === undefined) return inside
  return { ...inside, env: { ...inside.env, ...certificateEnvironment(), ...proxy.placeholders } }
}

/** The parts of a launcher runtime that its probe uses. */
interface Trial {
  readonly signal: AbortSignal
  /** The languages of the prepared host. */
  languages(): LanguagesFound
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

/** Starts real sandboxes: one attacks itself from the inside, and the fastest of three gives the start time. */
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
      languages: trial.languages().available,
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
  const details: { readonly [name: string]: unknown } = { ...(ToolError.is(error) ? error.details : undefined) }
  const { reason, remedy } = details
  const message = error instanceof Error ? error.message : String(error)
  return {
    reason: typeof reason === 'string' ? reason : message,
    remedy: typeof remedy === 'string' ? remedy : 'Repair that, then run `gantry doctor` again.',
  }
}

/** Results of the self-test attacks, by their numbers in the attack list. */
interface SelfTest {
  readonly refused: readonly string[]
  readonly open: readonly string[]
}

/** Reads the output of the launcher's `selftest`. A missing or malformed line counts as a breach. */
function readSelfTest({ stdout, exit }: Outcome): SelfTest {
  const lines = new TextDecoder().decode(stdout.bytes).split('\n').filter(Boolean)
  const named = (state: string): string[] =>
    lines.filter((line) => line.endsWith(` ${state}`)).map((line) => line.slice(0, -state.length - 1))
  const [refused, open] = [named('refused'), named('open')]
  const whole = 'code' in exit && exit.code === 0 && refused.length === lines.length && lines.length > 0
  return { refused, open: whole || open.length > 0 ? open : ['unknown'] }
}
