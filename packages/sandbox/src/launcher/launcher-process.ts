import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { ToolError } from '@gantry/contract'
import { planFrame } from './encode.ts'
import { connectInit, type InitLink } from './init.ts'
import type { LaunchPlan } from './launch-plan.ts'
import { connectSupervisor, type SupervisorLink } from './supervisor.ts'

/** The launcher as a process, with both its channels. */
export interface LauncherProcess {
  readonly pid: number
  readonly supervisor: SupervisorLink
  readonly init: InitLink
  /** Whether it keeps Node alive: while something is awaited of it, not while it waits for us. */
  hold(on: boolean): void
}

/**
 * Sends the plan to the launcher that waits, or else to a new one; rejects when there is no process to be had, all else
 * shows in `ended`.
 */
export async function spawnLauncher(
  binary: string,
  plan: LaunchPlan,
  take?: () => ChildProcess | undefined,
): Promise<LauncherProcess> {
  const frame = planFrame(plan)
  const child = take?.() ?? (await spawned(binary))
  const [initSocket, supervisorSocket] = channelsOf(child)
  const supervisor = connectSupervisor(child, supervisorSocket, plan)
  supervisorSocket.write(frame)
  const init = connectInit(initSocket, supervisor.kill)
  const held = [child, initSocket, supervisorSocket]
  return {
    pid: child.pid ?? 0,
    supervisor,
    init,
    hold(on) {
      for (const one of held) on ? one.ref() : one.unref()
    },
  }
}

/** Our ends of the channels to the init and to the supervisor. */
export function channelsOf(child: ChildProcess): [init: Socket, supervisor: Socket] {
  const [, , , init, supervisor] = child.stdio as unknown as [null, null, null, Socket, Socket]
  return [init, supervisor]
}

/** A launcher that waits for its plan; throws, or has no `pid` and says why as an event, when there is none to be had. */
export function spawnChild(binary: string): ChildProcess {
  const stdio: StdioOptions = ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']
  return spawn(binary, ['supervise'], { stdio, env: {}, cwd: '/' })
}

/** Without a descriptor or process to spare there is not even a stdio, and the reason comes as an event. */
async function spawned(binary: string): Promise<ChildProcess> {
  try {
    const child = spawnChild(binary)
    if (child.pid === undefined) await once(child, 'spawn')
    return child
  } catch (cause) {
    throw new ToolError('SANDBOX_INIT_FAILED', `The sandbox did not start: ${binary} cannot be run.`, { cause })
  }
}
