import { type Isolation, ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { follow, unlessAborted } from '@gantry/core/internal/resilience/abort'
import {
  meets,
  type PackageKind,
  type Probe,
  type Program,
  type Refusal,
  type Runtime,
  type SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
import type { RuntimeVerdict } from '@gantry/core/internal/runtimes/runtimes'
import { didYouMean } from '@gantry/core/internal/search/near'
import type { Timing } from '../pools/timing.ts'
import type { RuntimeStatus } from './live-order.ts'
import type { Profile } from './profiles.ts'
import { lackingPackages } from './profiles.ts'

/** The demands of a request on a runtime. */
export interface Requirement {
  readonly profile: Profile
  /** The strongest floor of profile and call. */
  readonly floor: Isolation
  /** The only allowed kind, when the call names one. */
  readonly runtime?: string
  readonly program: Program['kind']
  /** The kinds of configured packages that the program must find. */
  readonly packages?: readonly PackageKind[]
}

/** Why one runtime does not serve a request. */
export interface RuntimeRefusal extends Refusal {
  readonly kind: string
  /**
   * The cause: the `request` does not allow or fit the runtime, it cannot have the configured `packages`, the `runtime`
   * cannot serve it on this machine, or its `probe` failed, which may be temporary.
   */
  readonly cause: 'request' | 'packages' | 'runtime' | 'probe'
}

/** Returns whether a runtime works here; synchronously when it is cached. */
export type ProbeSource = (runtime: Runtime) => Probe | Promise<Probe>

/**
 * Returns the first runtime of an order that is strong enough, allowed, able and available. A runtime is probed only when
 * no earlier one serves, and a runtime below the floor is never chosen.
 * - Errors: RUNTIME_UNAVAILABLE with the reason and the remedy for each runtime in `details.runtimes`.
 */
export async function select<R extends Runtime>(
  order: readonly R[],
  requirement: Requirement,
  spec: SandboxSpec,
  probeOf: ProbeSource,
): Promise<R> {
  const refusals: RuntimeRefusal[] = []
  for (const runtime of order) {
    const refusal = await refusalOf(runtime, requirement, spec, probeOf)
    if (refusal === undefined) return runtime
    refusals.push(refusal)
  }
  throw unavailable(requirement, refusals)
}

/** Why a runtime does not serve a request; undefined when it does. Probes it only when the request allows it. */
async function refusalOf(
  runtime: Runtime,
  requirement: Requirement,
  spec: SandboxSpec,
  probeOf: ProbeSource,
): Promise<RuntimeRefusal | undefined> {
  const { kind } = runtime
  const misfit = misfitOf(runtime, requirement)
  if (misfit !== undefined) return { kind, cause: 'request', ...misfit }
  const lacking = lackingPackages(runtime.packages, requirement.packages, requirement.profile.name)
  if (lacking !== undefined) return { kind, cause: 'packages', ...lacking }
  return lackOf(runtime, requirement, spec, probeOf)
}

/** The spec as a runtime gets it: with the least isolation where the runtime has several. */
export function specFor({ elsewhere }: Runtime, spec: SandboxSpec, floor: Isolation): SandboxSpec {
  return elsewhere === true ? { ...spec, floor } : spec
}

/** Says for every runtime of an order why it would be selected or not, by the rule of `select`; runs no program. */
export async function explainSelection(
  order: readonly RuntimeStatus[],
  requirement: Requirement,
  spec: SandboxSpec,
  probeOf: ProbeSource,
): Promise<readonly RuntimeVerdict[]> {
  const verdicts: RuntimeVerdict[] = []
  for (const status of order) {
    const refusal = await refusalOf(status.runtime, requirement, spec, probeOf)
    // Known only now where it is that of other hosts.
    const { kind, isolation } = status.runtime
    const chosen = verdicts.find(({ verdict }) => verdict === 'chosen')
    if (refusal !== undefined) {
      const { reason, remedy } = refusal
      verdicts.push({ kind, isolation, verdict: 'refused', reason, remedy })
    } else if (chosen === undefined) {
      verdicts.push({
        kind,
        isolation,
        verdict: 'chosen',
        reason: `It is the first that serves: ${startOf(status)}.`,
      })
    } else {
      const reason = `It would serve, and ${chosen.kind} comes first: ${startOf(status)}.`
      verdicts.push({ kind, isolation, verdict: 'spare', reason })
    }
  }
  return verdicts
}

function startOf({ startMs, isMeasured, state }: RuntimeStatus): string {
  const start = `it starts in about ${Math.max(1, Math.round(startMs))} ms${isMeasured ? ', as measured' : ', by its cost'}`
  if (state === 'unavailable') return `${start}, and could not be reached lately`
  return state === 'full' ? `${start}, and is busy with starts` : start
}

/** Why the request does not allow a runtime, whether it is available or not. */
function misfitOf({ kind, isolation, elsewhere, programs }: Runtime, requirement: Requirement): Refusal | undefined {
  const { profile, floor, runtime, program } = requirement
  if (runtime !== undefined && runtime !== kind) {
    return { reason: `The call names the runtime ${quote(runtime)}.`, remedy: `Name ${kind}, or no runtime.` }
  }
  if (isolation === 'none' && elsewhere !== true && !(profile.unsafeHost && runtime === kind)) {
    const missing = profile.unsafeHost ? 'the call does not name it' : `the profile ${profile.name} does not allow it`
    return {
      reason: `It isolates nothing, and ${missing}.`,
      remedy: `Set unsafeHost: true in a profile whose floor is none, such as dev, and name that profile and ${kind} in the call.`,
    }
  }
  if (profile.runtimes !== undefined && !profile.runtimes.includes(kind)) {
    return {
      reason: `The profile ${profile.name} uses only ${profile.runtimes.join(', ')}.`,
      remedy: 'Name another profile.',
    }
  }
  // Other hosts have several; `refuses` compares them with the floor of the spec.
  if (elsewhere !== true && !meets(isolation, floor)) {
    const profileOfKind =
      kind === 'wasm' && floor === profile.floor ? "Set `profile: 'wasm'`, which allows it" : undefined
    return {
      reason: `Its isolation is ${isolation}, and at least ${floor} is required.`,
      remedy: `${profileOfKind ?? `Use a runtime of at least ${floor}`}, or name a profile whose floor is lower.`,
    }
  }
  if (programs.includes(program)) return undefined
  const remedy = program === 'wasi' ? "Set `profile: 'wasm'`, whose runtime runs WASI modules." : 'Use another runtime.'
  return { reason: `It cannot run a program given as ${program}.`, remedy }
}

/** Why an allowed runtime cannot serve the request here. */
async function lackOf(
  runtime: Runtime,
  { floor }: Requirement,
  given: SandboxSpec,
  probeOf: ProbeSource,
): Promise<RuntimeRefusal | undefined> {
  const { kind } = runtime
  const spec = specFor(runtime, given, floor)
  const refused = runtime.refuses(spec)
  if (refused !== undefined) return { kind, cause: 'runtime', ...refused }
  const probe = await probeOf(runtime)
  if (!probe.available) {
    const { reason, remedy } = probe
    // A breached runtime stays refused.
    return { kind, cause: breaches(probe).length === 0 ? 'probe' : 'runtime', reason, remedy }
  }
  // Checked again, because the probe may have found limits that cannot be enforced here, or languages that an image lacks.
  const refusedNow = runtime.refuses(spec)
  if (refusedNow !== undefined) return { kind, cause: 'runtime', ...refusedNow }
  const { language } = spec
  if (language === undefined || probe.languages.includes(language)) return undefined
  const has = probe.languages.join(', ') || 'no language'
  const reason = `Its languages here are ${has}; ${quote(language)} is not installed.`
  return { kind, cause: 'runtime', reason, remedy: `Install what runs ${quote(language)}.` }
}

function unavailable(requirement: Requirement, refusals: readonly RuntimeRefusal[]): ToolError {
  const { runtime } = requirement
  const kinds = refusals.map(({ kind }) => kind)
  const runtimes = refusals.map(({ kind, reason, remedy }) => ({ kind, reason, remedy }))
  const details = { runtimes, ...(runtime === undefined ? {} : { runtime }) }
  // Only a failed probe is temporary: everything else needs another request or another configuration.
  const options = { details, retryable: refusals.some(({ cause }) => cause === 'probe') }
  if (runtime !== undefined && !kinds.includes(runtime)) {
    const known = knownKinds.find(({ kind }) => kind === runtime)
    if (known !== undefined) return new ToolError('RUNTIME_UNAVAILABLE', `${known.reason} ${known.remedy}`, options)
    const message = `Unknown runtime ${quote(runtime)}${didYouMean(runtime, kinds)}; available are ${kinds.join(', ') || 'none'}.`
    return new ToolError('RUNTIME_UNAVAILABLE', message, options)
  }
  const best = mostHelpful(requirement, refusals)
  if (best === undefined) return new ToolError('RUNTIME_UNAVAILABLE', 'No runtime is configured.', options)
  const message = `No runtime serves this request. ${best.kind}: ${best.reason} ${best.remedy}`
  return new ToolError('RUNTIME_UNAVAILABLE', message, options)
}

/**
 * The refusal of the named runtime, else of one that the request allows, else of the only kind that runs WASI modules.
 */
function mostHelpful(
  { runtime, program }: Requirement,
  refusals: readonly RuntimeRefusal[],
): RuntimeRefusal | undefined {
  return (
    refusals.find(({ kind }) => kind === runtime) ??
    refusals.find(({ cause }) => cause === 'runtime' || cause === 'probe') ??
    refusals.find(({ cause }) => cause === 'packages') ??
    refusals.find(({ kind }) => program === 'wasi' && kind === 'wasm') ??
    refusals[0]
  )
}

/** How long a failed probe is cached; an operator may repair the runtime. */
const failureMs = 30_000
/** Timeout of a probe; a slower runtime counts as unavailable. */
const longestMs = 60_000

/**
 * Probes each runtime once, when it is first needed; concurrent callers share the probe, later ones its result. A
 * failure is cached for 30 seconds, a successful self-test attack permanently.
 */
export interface Probes {
  /** Rejects only with the signal's reason; the probe continues for other callers. */
  get(runtime: Runtime, signal: AbortSignal): Probe | Promise<Probe>
}

interface Known {
  readonly probe: Probe
  readonly at: number
}

/** Self-test attacks that succeeded. */
export function breaches(probe: Probe): readonly string[] {
  return probe.available ? [] : (probe.breached ?? [])
}

/** `closing` cancels running probes. */
export function createProbes(timing: Timing, closing: AbortSignal): Probes {
  const known = new Map<Runtime, Known>()
  const running = new Map<Runtime, Promise<Probe>>()

  const start = (runtime: Runtime): Promise<Probe> => {
    const probing = probeOnce(runtime, timing, closing).then((probe) => {
      known.set(runtime, { probe, at: timing.now() })
      running.delete(runtime)
      return probe
    })
    running.set(runtime, probing)
    return probing
  }
  return {
    get(runtime, signal) {
      const last = known.get(runtime)
      if (last !== undefined && !isStale(last, timing.now())) return last.probe
      return unlessAborted(running.get(runtime) ?? start(runtime), signal)
    },
  }
}

function isStale({ probe, at }: Known, now: number): boolean {
  return !probe.available && breaches(probe).length === 0 && now - at >= failureMs
}

async function probeOnce(runtime: Runtime, timing: Timing, closing: AbortSignal): Promise<Probe> {
  const late = new AbortController()
  const callOff = timing.after(longestMs, () => late.abort())
  const { signal, leave } = follow(closing, late.signal)
  try {
    return await unlessAborted(runtime.probe(signal), signal)
  } catch {
    const reason = late.signal.aborted ? `Its self-test took longer than ${longestMs} ms.` : 'Its self-test broke off.'
    return { available: false, reason, remedy: 'Look at `gantry doctor`, and try again.' }
  } finally {
    callOff()
    leave()
  }
}

/** A kind of runtime that Gantry knows, and what is missing where it is not there. */
export interface KnownKind extends Refusal {
  readonly kind: string
  readonly isolation: Isolation
}

/** A kind is created by a function, and needs something installed. */
type KindRow = readonly [kind: string, isolation: Isolation, driver: Driver]

interface Driver {
  readonly create: string
  /** The package that has the function; that of containers when absent. */
  readonly from?: string
  /** Its name in the configuration; the kind when absent. */
  readonly setting?: string
  /** Its requirements and further steps of the installation. */
  readonly install: string
}

const engine = 'Docker 20.10 or newer (Debian: apt-get install docker.io)'

/** Each kind in the order of `gantry doctor`. */
const kinds: readonly KindRow[] = [
  ['docker', 'container', { create: 'createDockerRuntime', install: engine }],
  [
    'containerd',
    'container',
    {
      create: 'createContainerdRuntime',
      install: 'containerd 1.6 or newer and runc (Debian: apt-get install containerd)',
    },
  ],
  [
    'gvisor',
    'kernel',
    { create: 'createGvisorRuntime', install: `${engine} with runsc as a runtime (Debian: apt-get install runsc)` },
  ],
  ['kata', 'microvm', { create: 'createKataRuntime', install: `${engine} with Kata Containers, and KVM` }],
  [
    'kubernetes',
    'container',
    {
      create: 'createKubernetesRuntime',
      from: '@gantry/sandbox-kubernetes',
      install: 'a cluster, a role in one of its namespaces, and the image of `gantry runtime build` on its nodes',
    },
  ],
  [
    'firecracker',
    'microvm',
    {
      create: 'createFirecrackerRuntime',
      from: '@gantry/sandbox-microvm',
      install:
        'root, KVM, Firecracker 1.8 or newer with its jailer, and an image of `gantry runtime build --engine qemu`',
    },
  ],
  [
    'qemu',
    'microvm',
    {
      create: 'createQemuRuntime',
      from: '@gantry/sandbox-microvm',
      install:
        'QEMU 6.0 or newer (Debian: apt-get install qemu-system-x86) and an image of `gantry runtime build --engine qemu`',
    },
  ],
  [
    'remote',
    'none',
    {
      create: 'createRemoteRuntime',
      from: '@gantry/sandbox-remote',
      install: '`gantry runtime serve` on another host, and its key',
    },
  ],
  [
    'proxmox_lxc',
    'container',
    {
      create: 'createProxmoxRuntime',
      from: '@gantry/sandbox-proxmox',
      setting: 'proxmox',
      install: 'a node of Proxmox VE, a token of its API, and the template of `gantry runtime template`',
    },
  ],
  [
    'temporal',
    'none',
    {
      create: 'createTemporalRuntime',
      from: '@gantry/temporal',
      install: 'a Temporal server, and `gantry worker temporal` with the same task queue and key',
    },
  ],
]

/** Every kind that is there only when it is configured. */
export const knownKinds: readonly KnownKind[] = kinds.map(([kind, isolation, driver]) => ({
  kind,
  isolation,
  ...notConfigured(kind, driver),
}))

function notConfigured(kind: string, { create, install, from, setting = kind }: Driver): Refusal {
  const image = from === undefined ? '; `gantry runtime build` makes its image' : ''
  return {
    reason: `The runtime ${kind} is not configured.`,
    remedy: `Add runtimes.${setting} to the configuration, or ${create}() of ${from ?? '@gantry/sandbox-containers'} to \`use\`. It needs ${install}${image}.`,
  }
}
