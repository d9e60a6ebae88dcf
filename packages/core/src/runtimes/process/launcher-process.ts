import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { ToolError } from '@gantry/contract'
import type { LaunchPlan } from './launch-plan.ts'
import { planFrame } from './launcher-encode.ts'
import { connectInit, type InitLink } from './launcher-init.ts'
import { connectSupervisor, type SupervisorLink } from './launcher-supervisor.ts'

/** The launcher as a process, with both its channels. */
export interface LauncherProcess {
  readonly pid: number
  readonly supervisor: SupervisorLink
  readonly init: InitLink
  /** Whether it keeps Node alive: while something is awaited of it, not while it waits for us. */
  hold(on: boolean): void
}

/** Starts the launcher and sends it the plan; rejects when there is no process to be had, all else shows in `ended`. */
export async function spawnLauncher(binary: string, plan: LaunchPlan): Promise<LauncherProcess> {
  const frame = planFrame(plan)
  const child = await spawnChild(binary)
  const [, , , initSocket, supervisorSocket] = child.stdio as unknown as [null, null, null, Socket, Socket]
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

/** Without a descriptor or process to spare there is not even a stdio, and the reason comes as an event. */
async function spawnChild(binary: string): Promise<ChildProcess> {
  try {
    const stdio: StdioOptions = ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']
    const child = spawn(binary, ['supervise'], { stdio, env: {}, cwd: '/' })
    if (child.pid === undefined) await once(child, 'spawn')
    return child
  } catch (cause) {
    throw new ToolError('SANDBOX_INIT_FAILED', `The sandbox did not start: ${binary} cannot be run.`, { cause })
  }
}
