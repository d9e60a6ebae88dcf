import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
import { type SandboxLimits, ToolError } from '@gantry/contract'
import { follow, onAbort } from '@gantry/core/internal/resilience/abort'
import { connectInit, type InitLink } from '@gantry/sandbox/internal/launcher/init'
import { channelsOf, launchedOf } from '@gantry/sandbox/internal/launcher/launched'
import type { LaunchEnd, Launched, LaunchPlan } from '@gantry/sandbox/internal/launcher/launcher'
import { planFrame } from '@gantry/sandbox/internal/launcher/protocol'
import { connectSupervisor, type Figures, type SupervisorLink } from '@gantry/sandbox/internal/launcher/supervisor'
import { connectGuest, type GuestLink } from './guest-link.ts'

/** What one machine starts from. */
export interface MachineOptions {
  /** The native launcher, whose supervisor starts, watches and removes the hypervisor. */
  readonly launcher: string
  readonly plan: LaunchPlan
  /** A descriptor of this process, which the hypervisor gets as its first. */
  readonly memory?: number
  /** A file, which the hypervisor gets open as its second descriptor. */
  readonly state?: string
  /** Starts it and opens the channel to its guest; the hypervisor inherits that channel when absent. */
  connect?(signal: AbortSignal): Promise<Socket>
  /** What else starts it, once the hypervisor runs. */
  restore?(signal: AbortSignal): Promise<void>
  readonly limits: SandboxLimits
  /** Time until the guest answers. */
  readonly startMs: number
  readonly signal: AbortSignal
}

/** A virtual machine that runs, with a guest that has its limits. */
export interface Machine {
  readonly pid: number
  readonly supervisor: SupervisorLink
  readonly link: GuestLink
  readonly init: InitLink
  /** Whether the machine keeps Node alive. */
  hold(on: boolean): void
  /** Why it is no more, or not yet, of use. */
  failure(): Promise<ToolError>
}

/**
 * Starts a hypervisor under the native supervisor and gives its guest random numbers, the time and limits.
 * - Cancellation: `signal` ends the start; what was started is removed first.
 * - Errors: SANDBOX_INIT_FAILED with what the hypervisor or the guest said last; nothing is left then.
 */
export async function startMachine(options: MachineOptions): Promise<Machine> {
  const { launcher, plan, limits, startMs, signal } = options
  signal.throwIfAborted()
  const child = await spawned(launcher, options)
  const [inherited, control] = channelsOf(child)
  const own = connectSupervisor(child, control, plan)
  control.write(planFrame(plan))
  const timer = setTimeout(own.kill, startMs)
  const leave = onAbort(signal, own.kill)
  const transport = await transportOf(options, own, inherited).catch((error: unknown) => {
    leave()
    clearTimeout(timer)
    throw error
  })
  const link = connectGuest(transport)
  const supervisor = watchedMachine(own, link)
  const init = connectInit(link.channel, own.kill)
  const held = [child, transport, control]
  transport.resume()
  const machine: Machine = {
    pid: child.pid ?? 0,
    supervisor: supervisor.link,
    link,
    init,
    hold(on) {
      for (const one of held) on ? one.ref() : one.unref()
    },
    failure: async () => notStarted(await own.ended, link.fault() ?? init.fault()?.message),
  }
  try {
    await Promise.race([Promise.all([options.restore?.(signal), link.renew(limits)]), own.ended, link.closed])
    signal.throwIfAborted()
    if (link.isClosed()) throw await stopped(machine)
    await supervisor.rebase()
    return machine
  } catch (error) {
    own.kill()
    await own.ended
    throw error
  } finally {
    leave()
    clearTimeout(timer)
  }
}

/** A hypervisor that ends before its guest is reached has said why. */
async function transportOf(
  { connect, signal }: MachineOptions,
  own: SupervisorLink,
  inherited: Socket,
): Promise<Socket> {
  if (connect === undefined) return inherited
  inherited.destroy()
  const gone = new AbortController()
  void own.ended.then(() => gone.abort())
  const both = follow(signal, gone.signal)
  try {
    return await connect(both.signal)
  } catch (error) {
    const isOver = gone.signal.aborted
    own.kill()
    const end = await own.ended
    signal.throwIfAborted()
    throw isOver || !ToolError.is(error) ? notStarted(end, undefined) : error
  } finally {
    both.leave()
  }
}

async function stopped(machine: Machine): Promise<ToolError> {
  machine.supervisor.kill()
  return machine.failure()
}

/** A machine as the launcher of sandboxes knows it. */
export function launchedMachine(machine: Machine): Launched {
  const { pid, supervisor, init, hold } = machine
  // The channel has no half: its end is the end of the machine, so it stays open until the run has ended.
  return launchedOf({ pid, supervisor, init: { ...init, hangUp: () => undefined }, hold }, machine.failure)
}

async function spawned(launcher: string, { memory, state }: MachineOptions): Promise<ChildProcess> {
  // Opened for each machine, because the position in a file goes with the descriptor.
  const opened = state === undefined ? undefined : openSync(state, 'r')
  try {
    const stdio = [memory ?? 'ignore', opened ?? 'ignore', 'ignore', 'pipe', 'pipe'] as const
    const child = spawn(launcher, ['supervise'], { stdio: [...stdio], env: {}, cwd: '/' })
    if (child.pid === undefined) await once(child, 'spawn')
    return child
  } catch (cause) {
    throw new ToolError('SANDBOX_INIT_FAILED', `The machine did not start: ${launcher} cannot be run.`, { cause })
  } finally {
    if (opened !== undefined) closeSync(opened)
  }
}

function notStarted({ message }: LaunchEnd, fault: string | undefined): ToolError {
  const said = fault ?? message ?? 'The hypervisor gave no reason.'
  return new ToolError('SANDBOX_INIT_FAILED', `The virtual machine did not start. ${said}`)
}

/** As control groups have them. */
const figureNames = { time: ['cpuNs', 'cpuUsec'], memory: 'memoryPeakBytes' } as const

/**
 * The supervisor of a hypervisor, and what its guest adds: the memory of the programs alone, and limits that the
 * guest's kernel holds. Processor time is the host's figure, from the moment at which the machine had started.
 */
function watchedMachine(
  own: SupervisorLink,
  link: GuestLink,
): { readonly link: SupervisorLink; rebase(): Promise<void> } {
  let base: Figures['figures'] = {}
  let hit = false
  const merged = <Known extends Figures>(known: Known): Known => {
    const { memoryPeakBytes, hits = [] } = link.figures() ?? {}
    const figures: { [name: string]: number } = { ...known.figures }
    for (const name of figureNames.time) {
      const whole = figures[name]
      if (whole !== undefined) figures[name] = Math.max(0, whole - (base[name] ?? 0))
    }
    if (memoryPeakBytes !== undefined) figures[figureNames.memory] = memoryPeakBytes
    return { ...known, figures, hits: [...new Set([...known.hits, ...hits])] }
  }
  link.onHit(() => {
    hit = true
    own.kill()
  })
  const whole = async (asked: Promise<Figures>): Promise<Figures> => merged(await asked)
  return {
    link: {
      begin: own.begin,
      measure: () => whole(own.measure()),
      look: () => whole(own.look()),
      kill: own.kill,
      end: own.end.then((end) => withReason(merged(end), hit)),
      ended: own.ended.then((end) => withReason(merged(end), hit)),
    },
    async rebase() {
      // A run that is begun and ended: what the start of the machine took is no program's.
      own.begin(60_000)
      base = (await own.measure()).figures
    },
  }
}

function withReason(end: LaunchEnd, hit: boolean): LaunchEnd {
  return hit && end.reason === 'killed' ? { ...end, reason: 'watch' } : end
}
