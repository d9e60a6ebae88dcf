import { chownSync, mkdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type SandboxLimit, type SandboxLimits, ToolError } from '@gantry/contract'
import type { PackageKind, Refusal, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { LaunchPlan } from '../launcher/launcher.ts'
import { type Bubblewrap, bubblewrapArguments, findBubblewrap, unavailable } from './bubblewrap.ts'
import { type Cgroups, cgroupRemedy, createCgroups } from './cgroups.ts'
import { groupsFileOf, type Swept, sweep } from './janitor.ts'
import { prepareRootFileSystem, type RootFileSystemOptions, type SystemArguments } from './root-file-system.ts'
import { openSandboxRoot, type SandboxRoot } from './sandbox-root.ts'
import { type Filter, writeFilters } from './seccomp/filters.ts'
import { claimUids, type Uids } from './uids.ts'
import { countPlanners, createUserQuotas, type QuotaShare, type UserQuotas } from './user-quotas.ts'

export interface PlannerOptions extends Omit<RootFileSystemOptions, 'layers'> {
  /** Host folder for sandbox files; see `openSandboxRoot`. */
  readonly sandboxRoot?: string
  /** Path of bubblewrap, when it is not on the PATH. */
  readonly bubblewrap?: string
  /** Processors that a sandbox may use at a time; 1 when absent. */
  readonly processors?: number
  /** Makes folders with packages readable for sandboxes; called once, with the folder for sandbox files. */
  readonly placeLayers?: (root: SandboxRoot) => Promise<ReadonlyMap<PackageKind, string>>
  readonly signal: AbortSignal
}

/** The launch plan of one sandbox and the mechanism of each limit. */
export interface Planned {
  readonly plan: LaunchPlan
  readonly enforced: { readonly [Limit in SandboxLimit]?: string }
  /** Host folder of the egress proxy's socket, accessible only to the sandbox; absent without a network. */
  readonly egressFolder?: string
  /** Releases uid and quotas after the launcher ended; idempotent. */
  release(): void
}

/** Turns a sandbox spec into a launch plan. All sandbox policy is here. */
export interface Planner {
  /** Versions of bubblewrap and of the seccomp filter, which is fixed for each version of Gantry. */
  readonly version: string
  readonly enforced: { readonly [Limit in SandboxLimit]?: string }
  /** Limits that the kernel does not enforce here, and why; one sentence each. */
  readonly missing: readonly string[]
  /** The folder of this process for what its sandboxes share; it goes with the planner. */
  readonly folder: string
  /** The path of bubblewrap. */
  readonly bubblewrap: string
  /** The folders and groups that the janitor removed after their owners died. */
  readonly swept: Swept
  plan(id: string, spec: SandboxSpec): Planned
  /** Why such a sandbox is impossible here; undefined when it is possible. */
  refuses(spec: SandboxSpec): Refusal | undefined
  /** Kills what is left and removes everything that this process created. No plan may be in use. */
  close(): Promise<void>
}

/** Prepares the host; rejects with RUNTIME_UNAVAILABLE or CONFIG_INVALID and leaves nothing behind. */
export async function createPlanner(options: PlannerOptions): Promise<Planner> {
  if (process.platform !== 'linux') throw unavailable('Namespaces are of Linux alone.', 'Use another runtime here.')
  const root = await openSandboxRoot(options.sandboxRoot === undefined ? {} : { folder: options.sandboxRoot })
  const closers: (() => Promise<void>)[] = [root.close]
  try {
    return await prepare(root, options, closers)
  } catch (error) {
    await closeAll(closers).catch(() => undefined)
    throw error
  }
}

async function prepare(root: SandboxRoot, options: PlannerOptions, closers: (() => Promise<void>)[]): Promise<Planner> {
  const swept = await sweep(root.folder)
  const uids = root.privileged ? await claimUids(root) : undefined
  if (uids !== undefined) closers.push(uids.close)
  const quotas = root.privileged ? undefined : createUserQuotas(() => countPlanners(root.folder))
  const bubblewrap = await bubblewrapFor(uids, options)
  const announce = (folders: readonly string[]): Promise<void> =>
    writeFile(groupsFileOf(root), folders.join('\n'), { mode: 0o600 })
  const { processors = 1 } = options
  const cgroups = await createCgroups({ owner: root.owner, processors, announce })
  closers.push(cgroups.close)
  const { placeLayers = async () => new Map<PackageKind, string>(), ...rest } = options
  const system = await prepareRootFileSystem(root, { ...rest, layers: await placeLayers(root) })
  const filters = await writeFilters(root.run)
  const parts: Parts = { root, uids, quotas, bubblewrap, cgroups, system, filters }
  const enforced = enforcedBy(cgroups)
  return {
    version: `bubblewrap ${bubblewrap.version}, filter ${filters.base.hash.slice(0, 12)}`,
    enforced,
    missing: cgroups.missing,
    folder: root.run,
    bubblewrap: bubblewrap.path,
    swept,
    plan: (id, spec) => planFor(parts, id, spec),
    refuses: (spec) => refusalOf(spec, cgroups) ?? quotas?.refuses(spec.limits),
    close: () => closeAll(closers),
  }
}

async function bubblewrapFor(uids: Uids | undefined, { bubblewrap, signal }: PlannerOptions): Promise<Bubblewrap> {
  const uid = uids?.next()
  try {
    return await findBubblewrap({
      signal,
      ...(bubblewrap === undefined ? {} : { path: bubblewrap }),
      ...(uid === undefined ? {} : { uid }),
    })
  } finally {
    if (uid !== undefined) uids?.release(uid)
  }
}

/** Closes in reverse order; a failure does not prevent the others from being closed. */
async function closeAll(closers: (() => Promise<void>)[]): Promise<void> {
  const failed: unknown[] = []
  for (let close = closers.pop(); close !== undefined; close = closers.pop()) {
    await close().catch((error: unknown) => failed.push(error))
  }
  const [cause] = failed
  if (cause !== undefined)
    throw new ToolError('INTERNAL', 'Some files of the sandboxes could not be removed.', { cause })
}

interface Parts {
  readonly root: SandboxRoot
  readonly uids: Uids | undefined
  /** Quotas of the uid that sandboxes share with this process; undefined when they have their own. */
  readonly quotas: UserQuotas | undefined
  readonly bubblewrap: Bubblewrap
  readonly cgroups: Cgroups
  readonly system: SystemArguments
  readonly filters: { readonly base: Filter; readonly strict: Filter }
}

const idForm = /^[A-Za-z0-9_-]{1,64}$/

function planFor(parts: Parts, id: string, spec: SandboxSpec): Planned {
  const { root, uids, quotas, bubblewrap, cgroups, system, filters } = parts
  if (!idForm.test(id)) throw new ToolError('INTERNAL', 'The id of a sandbox is not a plain name.')
  const share = quotas?.take(spec.limits)
  const uid = uids?.next()
  const egressFolder = spec.network === 'none' ? undefined : makeEgressFolder(join(root.run, `e-${id}`), uid)
  const filter = spec.strict === true ? filters.strict : filters.base
  const { diskBytes } = spec.limits
  const plan: LaunchPlan = {
    argv: bubblewrapArguments({
      program: bubblewrap.path,
      system: systemFor(spec, system),
      diskBytes,
      ...(egressFolder === undefined ? {} : { egressFolder }),
    }),
    seccompFile: filter.file,
    ...(uid === undefined ? {} : { uid, gid: uid }),
    cgroups: cgroups.plan(id, spec.limits),
    rlimits: rlimitsFor(spec, cgroups, share),
    folders: egressFolder === undefined ? [] : [egressFolder],
    orphans: [root.run, ...(uids === undefined ? [] : [uids.claim])],
    ...(share === undefined ? {} : { epollWatches: share.epollWatches }),
  }
  return {
    plan,
    enforced: enforcedBy(cgroups),
    ...(egressFolder === undefined ? {} : { egressFolder }),
    release: once(() => {
      share?.release()
      if (uid !== undefined) uids?.release(uid)
    }),
  }
}

/** Runs once: a second release could free a uid that already belongs to another sandbox. */
function once(work: () => void): () => void {
  let done = false
  return () => {
    if (!done) work()
    done = true
  }
}

/** Only this sandbox's uid and this process can enter it; inside it is read-only. */
function makeEgressFolder(folder: string, uid: number | undefined): string {
  mkdirSync(folder, { mode: 0o700 })
  if (uid !== undefined) chownSync(folder, uid, uid)
  return folder
}

/** A second barrier in addition to the control groups, and for what those do not count. */
function rlimitsFor(
  { limits, session }: SandboxSpec,
  cgroups: Cgroups,
  share: QuotaShare | undefined,
): LaunchPlan['rlimits'] {
  const cpuSeconds = Math.ceil(limits.cpuMs / 1_000) + 1
  return {
    // Not 0: at 1 the kernel also skips a dump that it would pipe to a program of the host.
    core: 1,
    nofile: share?.openFiles ?? 1_024,
    fsize: limits.diskBytes,
    memlock: 65_536,
    msgqueue: 0,
    sigpending: share?.pendingSignals ?? 1_024,
    rtprio: 0,
    nice: 0,
    // The kernel counts processes by uid, so this would count our own where a sandbox has no uid of its own.
    ...(share === undefined ? { nproc: limits.pids + spareProcesses } : {}),
    ...(cgroups.enforced.cpuMs === undefined && session !== true ? { cpu: cpuSeconds } : {}),
  }
}

/** Above the limit of the control group, so that the control group is reached first, which ends the run. */
const spareProcesses = 16

function enforcedBy(cgroups: Cgroups): Planned['enforced'] {
  return {
    wallMs: 'timer of the supervisor',
    cpuMs: 'watch of the init',
    memoryBytes: 'watch of the init',
    pids: 'watch of the init',
    ...cgroups.enforced,
    diskBytes: 'tmpfs size',
    stdoutBytes: 'pipe of the init',
    stderrBytes: 'pipe of the init',
  }
}

const heldByKernel = ['cpuMs', 'memoryBytes', 'pids'] as const satisfies readonly (keyof SandboxLimits)[]

function refusalOf({ strict, network }: SandboxSpec, cgroups: Cgroups): Refusal | undefined {
  if (strict !== true) return undefined
  if (network !== 'none') {
    return {
      reason: 'A hardened sandbox reaches no network.',
      remedy: 'Leave `network` out, or use the profile `standard`.',
    }
  }
  const loose = heldByKernel.filter((limit) => cgroups.enforced[limit] === undefined)
  if (loose.length === 0) return undefined
  const reason = `The kernel does not enforce ${loose.join(', ')} here, which the profile \`hardened\` requires.`
  return { reason: [reason, ...cgroups.missing.slice(0, 1)].join(' '), remedy: cgroupRemedy }
}

/** Adds Node for languages that use it, packages, and CA certificates for sandboxes with a network. */
function systemFor({ language, network, packages = [] }: SandboxSpec, system: SystemArguments): string[] {
  const node = language === undefined || withoutNode.includes(language) ? [] : system.node
  const layers = packages.flatMap((kind) => system.layers.get(kind) ?? [])
  return [...system.base, ...node, ...layers, ...(network === 'none' ? [] : system.network)]
}

/** Languages that never use Node; configured languages may name it in their commands. */
const withoutNode = ['python', 'bash']
